import { Tokenizer as PlainTokenizer } from "@huggingface/tokenizers";
import type { EncodeOptions, SpecialToken, Tokenizer } from "./tokenizer.ts";
import { hideToken, revealToken } from "./hidden_tokens.ts";
import { rewritePreTokenizer } from "./pre_tokenizer.ts";
import { collectSpecialTokens, SpecialTokenSplitter } from "./special_tokens.ts";
import { type AddedIds, readAddedIds } from "./added_ids.ts";
import { bytesOfToken, readSpelling, type TokenSpelling } from "./token_text.ts";
import { tokenizerConfigSchema, TokenizerError, type TokenizerJson, tokenizerJsonSchema } from "./tokenizer_json.ts";

const utf8 = new TextEncoder();
const NO_BYTES = new Uint8Array(0);

export interface HfTokenizerOptions {
  /** Put before every stretch of text between special tokens: the start-of-text space of SentencePiece, which tokenizer.json cannot express. */
  readonly segmentPrefix?: string;
}

/**
 * A Hugging Face tokenizer.json. The library below it never sees special tokens: text is cut at them here, when the caller asks for it, and is
 * plain data otherwise. Decoding is done here too, byte by byte, so that a stream of tokens gives exactly the text of all of them.
 */
export class HfTokenizer implements Tokenizer {
  readonly vocabSize: number;
  readonly bosId: number | null;
  readonly eosId: number | null;
  readonly specialTokens: readonly SpecialToken[];
  readonly #plain: PlainTokenizer;
  readonly #splitter: SpecialTokenSplitter;
  readonly #segmentPrefix: string;
  readonly #hasStartSpace: boolean;
  readonly #added: AddedIds;
  readonly #spelling: TokenSpelling;
  readonly #specialIds: ReadonlySet<number>;
  /** Added tokens: literal text where the vocabulary is spelled in the byte alphabet. */
  readonly #addedIds: ReadonlySet<number>;
  readonly #tokens: readonly (string | undefined)[];

  /** @throws {TokenizerError} when the files do not fit their format or need something that cannot be reproduced. */
  constructor(tokenizerJson: unknown, tokenizerConfig: unknown = {}, options: HfTokenizerOptions = {}) {
    this.#segmentPrefix = options.segmentPrefix ?? "";
    const json = parse("tokenizer.json", tokenizerJsonSchema.safeParse(tokenizerJson));
    const config = parse("tokenizer_config.json", tokenizerConfigSchema.safeParse(tokenizerConfig));
    this.specialTokens = collectSpecialTokens(json, config);
    this.#specialIds = new Set(this.specialTokens.map((token) => token.id));
    this.#addedIds = new Set(json.added_tokens.map((token) => token.id));
    this.#splitter = new SpecialTokenSplitter(this.specialTokens);
    this.#spelling = readSpelling(json.decoder);
    const preTokenizer = rewritePreTokenizer(json.pre_tokenizer);
    this.#hasStartSpace = preTokenizer.hasStartSpace;
    const ids = new Map(json.added_tokens.map((token) => [token.content, token.id]));
    this.bosId = idOfNamed(config.bos_token, ids, json);
    this.eosId = idOfNamed(config.eos_token, ids, json);
    this.#added = readAddedIds(json.post_processor, config, this.bosId, this.eosId);
    this.#plain = makePlainTokenizer({ ...json, pre_tokenizer: preTokenizer.node }, this.specialTokens);
    this.#tokens = tokenStrings(this.#plain, this.specialTokens);
    this.vocabSize = this.#tokens.length;
  }

  get stripsLeadingSpace(): boolean {
    return this.#spelling.stripsLeadingSpace;
  }

  encode(text: string, options: EncodeOptions = {}): number[] {
    const { parseSpecial = false, addSpecial = false, isContinuation = false } = options;
    const ids: number[] = [];
    const parts = parseSpecial ? this.#splitter.split(text) : [{ text }];
    for (const [i, part] of parts.entries()) {
      if ("special" in part) ids.push(part.special.id);
      else this.#encodePlain(part.text, i === 0 && !isContinuation, ids);
    }
    if (!addSpecial) return ids;
    const { prefix, suffix } = this.#added;
    const hasPrefix = prefix.length > 0 && prefix.every((id, i) => ids[i] === id);
    return [...(hasPrefix ? [] : prefix), ...ids, ...suffix];
  }

  decode(ids: readonly number[], options: { readonly keepSpecial?: boolean } = {}): string {
    const pieces: Uint8Array[] = [];
    for (const id of ids) {
      if (!this.#specialIds.has(id)) pieces.push(this.tokenBytes(id));
      else if (options.keepSpecial) pieces.push(utf8.encode(this.#tokens[id]!));
    }
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(concat(pieces));
    return this.stripsLeadingSpace && text.startsWith(" ") ? text.slice(1) : text;
  }

  tokenBytes(id: number): Uint8Array {
    const token = this.#tokens[id];
    if (token === undefined || this.#specialIds.has(id)) return NO_BYTES;
    const isLiteral = this.#spelling.isByteLevel && this.#addedIds.has(id);
    return isLiteral ? utf8.encode(token) : bytesOfToken(token, this.#spelling);
  }

  isSpecial(id: number): boolean {
    return this.#specialIds.has(id);
  }

  #encodePlain(text: string, isFirst: boolean, ids: number[]): void {
    if (text === "") return;
    // A lone surrogate has no UTF-8; it must become U+FFFD here, as hidden tokens are spelled with one.
    let plain = this.#segmentPrefix + text.toWellFormed();
    if (this.#hasStartSpace && isFirst && !/^[ \u2581]/.test(plain)) plain = ` ${plain}`;
    for (const id of this.#plain.encode(plain, { add_special_tokens: false }).ids) {
      // Vocabularies without an unknown token drop what they cannot spell.
      if (id !== undefined) ids.push(id);
    }
  }
}

function parse<T>(
  file: string,
  result: { success: true; data: T } | { success: false; error: { issues: { path: PropertyKey[]; message: string }[] } },
): T {
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw new TokenizerError(`Cannot read ${file}: ${issue?.path.map(String).join(".") || "file"}: ${issue?.message}`);
}

function idOfNamed(name: string | null, addedIds: ReadonlyMap<string, number>, json: TokenizerJson): number | null {
  if (name === null) return null;
  const added = addedIds.get(name);
  if (added !== undefined) return added;
  const { vocab } = json.model;
  if (!Array.isArray(vocab)) return Object.hasOwn(vocab, name) ? vocab[name]! : null;
  const index = vocab.findIndex(([piece]) => piece === name);
  return index < 0 ? null : index;
}

/** The library's tokenizer for text without special tokens. */
function makePlainTokenizer(json: TokenizerJson, special: readonly SpecialToken[]): PlainTokenizer {
  const specialContents = new Set(special.map((token) => token.content));
  const plain = {
    ...json,
    added_tokens: json.added_tokens.filter((token) => !specialContents.has(token.content)),
    post_processor: null,
    // Decoding is done by `decode`.
    decoder: null,
    model: hideSpecialTokens(json.model, specialContents),
  };
  try {
    return new PlainTokenizer(plain, {});
  } catch (error) {
    throw new TokenizerError(`Cannot use tokenizer.json: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

/** By id; ids that the vocabulary leaves out are undefined. */
function tokenStrings(plain: PlainTokenizer, special: readonly SpecialToken[]): (string | undefined)[] {
  const tokens = Array.from(plain.model!.vocab, (token: string | undefined) => token === undefined ? undefined : revealToken(token));
  // Special tokens need not be in the model's own vocabulary.
  for (const token of special) tokens[token.id] = token.content;
  return tokens;
}

function hideSpecialTokens(model: TokenizerJson["model"], special: ReadonlySet<string>): TokenizerJson["model"] {
  if (model.type === "Unigram") {
    const pieces = model.vocab.map(([piece, score], id): [string, number] => [special.has(piece) ? hideToken(id, piece) : piece, score]);
    return { ...model, vocab: pieces };
  }
  const hide = (token: string, id: number): string => special.has(token) ? hideToken(id, token) : token;
  const vocab = Object.fromEntries(Object.entries(model.vocab).map(([token, id]) => [hide(token, id), id]));
  const unknown = model.unk_token ?? null;
  if (unknown === null || !Object.hasOwn(model.vocab, unknown)) return { ...model, vocab };
  return { ...model, vocab, unk_token: hide(unknown, model.vocab[unknown]!) };
}

function concat(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let offset = 0;
  for (const piece of pieces) {
    bytes.set(piece, offset);
    offset += piece.length;
  }
  return bytes;
}
