/** A control token: part of the protocol between template and model, never of the text. */
export interface SpecialToken {
  readonly id: number;
  readonly content: string;
  /** White space before, or after, the token's text is not encoded. */
  readonly stripsLeft: boolean;
  readonly stripsRight: boolean;
}

/** Text to ids and back. Implementations: `hf_tokenizer.ts` over @huggingface/tokenizers. */
export interface Tokenizer {
  readonly vocabSize: number;
  readonly bosId: number | null;
  readonly eosId: number | null;
  readonly specialTokens: readonly SpecialToken[];
  /** `decode` drops one leading space: the vocabulary marks the start of a text with a space that nobody wrote. */
  readonly stripsLeadingSpace: boolean;
  /** Ids of `text`. Special-token text is data unless `parseSpecial`; no BOS or EOS is added unless `addSpecial`. */
  encode(text: string, options?: EncodeOptions): number[];
  /** Text of `ids`; special tokens are left out unless `keepSpecial`. Incomplete UTF-8 gives U+FFFD. */
  decode(ids: readonly number[], options?: { readonly keepSpecial?: boolean }): string;
  /** The bytes that one token stands for (empty for special tokens that carry no text). */
  tokenBytes(id: number): Uint8Array;
  /** Whether `id` is a special (control) token. */
  isSpecial(id: number): boolean;
}

export interface EncodeOptions {
  readonly parseSpecial?: boolean;
  /** Adds what the tokenizer puts around every text; a BOS that is there already is not doubled. */
  readonly addSpecial?: boolean;
  /** Other text comes before this one: it gets no start-of-text space. */
  readonly isContinuation?: boolean;
}
