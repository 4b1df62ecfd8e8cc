/** Small tokenizers for tests: one byte a token, and SentencePiece's with a start-of-text space. */
import { type GgufVocabularySource, tokenizerFromGguf } from "../../src/tokenizer/gguf_vocabulary.ts";
import { HfTokenizer } from "../../src/tokenizer/hf_tokenizer.ts";

/** GPT-2's character for each byte. */
const BYTE_CHARACTERS: readonly string[] = (() => {
  const isOwn = (byte: number): boolean => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isOwn(byte) ? byte : next++));
})();

export const SPECIAL_CONTENTS = ["<|im_start|>", "<|im_end|>", "<bos>", "<|end|>"] as const;
export const FIRST_SPECIAL_ID = 256;

export interface TinyOptions {
  readonly addBos?: boolean;
}

/** tokenizer.json with ids 0 to 255 for the bytes, special tokens from 256 on, and `<think>` as an added token that is not special. */
export function tinyTokenizerJson(): Record<string, unknown> {
  const special = SPECIAL_CONTENTS.map((content, i) => ({
    id: FIRST_SPECIAL_ID + i,
    content,
    special: true,
    rstrip: content === "<|end|>",
  }));
  return {
    added_tokens: [...special, { id: FIRST_SPECIAL_ID + special.length, content: "<think>", special: false, normalized: false }],
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, use_regex: true },
    post_processor: null,
    decoder: { type: "ByteLevel" },
    model: { type: "BPE", vocab: Object.fromEntries(BYTE_CHARACTERS.map((character, byte) => [character, byte])), merges: [] },
  };
}

export function makeTinyTokenizer(options: TinyOptions = {}): HfTokenizer {
  return new HfTokenizer(tinyTokenizerJson(), { bos_token: "<bos>", eos_token: "<|im_end|>", add_bos_token: options.addBos ?? false });
}

export function gguf(values: Readonly<Record<string, unknown>>): GgufVocabularySource {
  const get = <T>(key: string): T | undefined => values[key] as T | undefined;
  return { string: get, number: get, boolean: get, strings: get, numbers: get };
}

export interface SentencePieceFixture {
  readonly tokens: string[];
  readonly scores: number[];
  readonly types: number[];
  readonly bos: number;
  readonly eos: number;
  readonly unknown: number;
  readonly cases: { readonly text: string; readonly ids: number[]; readonly decoded: string }[];
}

export function readFixture<T>(name: string): T {
  return JSON.parse(Deno.readTextFileSync(new URL(`../fixtures/tokenizer/${name}`, import.meta.url)));
}

export function makeSentencePieceTokenizer(fixture: SentencePieceFixture, extra: Readonly<Record<string, unknown>> = {}): HfTokenizer {
  const files = tokenizerFromGguf(gguf({
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": fixture.tokens,
    "tokenizer.ggml.scores": fixture.scores,
    "tokenizer.ggml.token_type": fixture.types,
    "tokenizer.ggml.bos_token_id": fixture.bos,
    "tokenizer.ggml.eos_token_id": fixture.eos,
    "tokenizer.ggml.unknown_token_id": fixture.unknown,
    ...extra,
  }));
  return new HfTokenizer(files.tokenizerJson, files.tokenizerConfig, files);
}
