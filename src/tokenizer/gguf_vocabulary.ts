/** Builds tokenizer.json and tokenizer_config.json from the vocabulary in a GGUF file's metadata. */
import { ggufPreTokenizer } from "./gguf_pre_tokenizers.ts";
import { hideToken } from "./hidden_tokens.ts";
import { splitIsolated } from "./pre_tokenizer.ts";
import { TokenizerError } from "./tokenizer_json.ts";

/** Metadata under `tokenizer.ggml.`, by the rest of the key. Absent keys are undefined. */
export interface GgufVocabularySource {
  string(key: string): string | undefined;
  number(key: string): number | undefined;
  boolean(key: string): boolean | undefined;
  strings(key: string): readonly string[] | undefined;
  numbers(key: string): readonly number[] | undefined;
}

export interface TokenizerFiles {
  readonly tokenizerJson: Record<string, unknown>;
  readonly tokenizerConfig: Record<string, unknown>;
  /** Put before every stretch of text between special tokens. */
  readonly segmentPrefix: string;
}

const TOKEN_TYPE = { unknown: 2, control: 3, userDefined: 4 } as const;

/** @throws {TokenizerError} when the vocabulary is damaged or of a kind that is not supported. */
export function tokenizerFromGguf(source: GgufVocabularySource): TokenizerFiles {
  const model = source.string("tokenizer.ggml.model") ?? fail("The metadata has no tokenizer.ggml.model");
  const vocabulary = readVocabulary(source);
  switch (model) {
    case "gpt2":
      return byteLevelFiles(source, vocabulary);
    case "llama":
      return sentencePieceFiles(source, vocabulary);
    default:
      return fail(`Unsupported tokenizer.ggml.model: ${model}; supported are gpt2 and llama`);
  }
}

function fail(message: string): never {
  throw new TokenizerError(message);
}

interface Vocabulary {
  readonly tokens: readonly string[];
  /** By key of tokenizer.json. */
  readonly ids: Record<string, number>;
  readonly addedTokens: readonly Record<string, unknown>[];
  readonly unknown: string | undefined;
  readonly bos: string | null;
  readonly eos: string | null;
}

function readVocabulary(source: GgufVocabularySource): Vocabulary {
  const tokens = source.strings("tokenizer.ggml.tokens") ?? fail("The metadata has no tokenizer.ggml.tokens");
  if (tokens.length === 0) fail("tokenizer.ggml.tokens is empty");
  const types = source.numbers("tokenizer.ggml.token_type");
  if (types !== undefined && types.length !== tokens.length) {
    fail(`tokenizer.ggml.token_type has ${types.length} elements, but there are ${tokens.length} tokens`);
  }
  const idOf = (name: string): number | undefined => namedId(source, name, tokens.length);
  // Some files mark their end-of-turn tokens as ordinary ones; nothing that ends a turn may be typed by a user.
  const control = new Set(["bos", "eos", "eot", "eom"].map(idOf));
  const keys = uniqueKeys(tokens);
  const addedTokens = tokens.flatMap((content, id) => {
    const isSpecial = types?.[id] === TOKEN_TYPE.control || types?.[id] === TOKEN_TYPE.unknown || control.has(id);
    if (content === "" || keys[id] !== content || (!isSpecial && types?.[id] !== TOKEN_TYPE.userDefined)) return [];
    return [{ id, content, special: isSpecial, normalized: false }];
  });
  const contentOf = (id: number | undefined): string | null => id === undefined ? null : tokens[id]!;
  const unknownId = types?.indexOf(TOKEN_TYPE.unknown) ?? -1;
  return {
    tokens,
    ids: Object.fromEntries(keys.map((key, id) => [key, id])),
    addedTokens,
    unknown: tokens[unknownId >= 0 ? unknownId : idOf("unknown") ?? -1],
    bos: contentOf(idOf("bos")),
    eos: contentOf(idOf("eos")),
  };
}

/** A file may hold the same text twice (unused ids, mostly): the first is the token, the others keep their ids under hidden keys. */
function uniqueKeys(tokens: readonly string[]): string[] {
  const seen = new Set<string>();
  return tokens.map((token, id) => {
    if (seen.has(token)) return hideToken(id, token);
    seen.add(token);
    return token;
  });
}

function namedId(source: GgufVocabularySource, name: string, numTokens: number): number | undefined {
  const key = `tokenizer.ggml.${name}_token_id`;
  const id = source.number(key);
  // Writers put -1 or 2^32 - 1 where a model has no such token.
  if (id === undefined || id === -1 || id === 0xffffffff) return undefined;
  if (!Number.isInteger(id) || id < 0 || id >= numTokens) fail(`${key} is ${id}, but there are ${numTokens} tokens`);
  return id;
}

function files(source: GgufVocabularySource, vocabulary: Vocabulary, addsBos: boolean, json: Record<string, unknown>): TokenizerFiles {
  return {
    tokenizerJson: { added_tokens: vocabulary.addedTokens, post_processor: null, ...json },
    tokenizerConfig: {
      bos_token: vocabulary.bos,
      eos_token: vocabulary.eos,
      add_bos_token: source.boolean("tokenizer.ggml.add_bos_token") ?? addsBos,
      add_eos_token: source.boolean("tokenizer.ggml.add_eos_token") ?? false,
    },
    segmentPrefix: "",
  };
}

function byteLevelFiles(source: GgufVocabularySource, vocabulary: Vocabulary): TokenizerFiles {
  const merges = source.strings("tokenizer.ggml.merges") ?? fail("The metadata has no tokenizer.ggml.merges");
  const family = ggufPreTokenizer(source.string("tokenizer.ggml.pre") ?? "default");
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, use_regex: false };
  return files(source, vocabulary, family.addsBos, {
    normalizer: family.normalizesNfc ? { type: "NFC" } : null,
    pre_tokenizer: { type: "Sequence", pretokenizers: [...family.patterns.map(splitIsolated), byteLevel] },
    decoder: { type: "ByteLevel" },
    model: { type: "BPE", vocab: vocabulary.ids, merges, ignore_merges: family.ignoresMerges },
  });
}

/**
 * SentencePiece's BPE joins the pair whose union has the best score, the leftmost of equal ones. As a list of merges that is: every way to cut a
 * piece in two, in the order of the pieces' scores.
 */
function sentencePieceFiles(source: GgufVocabularySource, vocabulary: Vocabulary): TokenizerFiles {
  const { tokens, unknown } = vocabulary;
  const scores = source.numbers("tokenizer.ggml.scores") ?? fail("The metadata has no tokenizer.ggml.scores");
  if (scores.length !== tokens.length) fail(`tokenizer.ggml.scores has ${scores.length} elements, but there are ${tokens.length} tokens`);
  const hasStartSpace = source.boolean("tokenizer.ggml.add_space_prefix") ?? true;
  const decoders = [
    { type: "Replace", pattern: { String: "\u2581" }, content: " " },
    { type: "ByteFallback" },
    { type: "Fuse" },
    ...(hasStartSpace ? [{ type: "Strip", content: " ", start: 1, stop: 0 }] : []),
  ];
  // Added tokens are looked for before spaces become marks.
  const addedTokens = vocabulary.addedTokens.map((token) => ({ ...token, content: String(token["content"]).replaceAll("\u2581", " ") }));
  const model = { type: "BPE", vocab: vocabulary.ids, merges: mergesFromScores(vocabulary, scores), unk_token: unknown ?? null };
  const result = files(source, { ...vocabulary, addedTokens }, true, {
    normalizer: { type: "Replace", pattern: { String: " " }, content: "\u2581" },
    pre_tokenizer: null,
    decoder: { type: "Sequence", decoders },
    model: { ...model, fuse_unk: true, byte_fallback: true },
  });
  return hasStartSpace ? { ...result, segmentPrefix: " " } : result;
}

function mergesFromScores(vocabulary: Vocabulary, scores: readonly number[]): [string, string][] {
  const added = new Set(vocabulary.addedTokens.map((token) => token["id"]));
  const pieces = new Map(vocabulary.tokens.map((token, id) => [token, id] as const).filter(([, id]) => !added.has(id)));
  const byScore = [...pieces].sort(([, a], [, b]) => scores[b]! - scores[a]! || a - b);
  const merges: [string, string][] = [];
  for (const [piece] of byScore) {
    const characters = [...piece];
    let left = "";
    for (let i = 0; i + 1 < characters.length; i++) {
      left += characters[i];
      const right = piece.slice(left.length);
      if (pieces.has(left) && pieces.has(right)) merges.push([left, right]);
    }
  }
  return merges;
}
