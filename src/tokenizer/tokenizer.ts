/** Text to ids and back. Implementations: `hf_tokenizer.ts` over @huggingface/tokenizers. */
export interface Tokenizer {
  readonly vocabSize: number;
  readonly bosId: number | null;
  readonly eosId: number | null;
  /** Ids of `text`. Special-token text is data unless `parseSpecial`; no BOS or EOS is added unless `addSpecial`. */
  encode(text: string, options?: { readonly parseSpecial?: boolean; readonly addSpecial?: boolean }): number[];
  /** Text of `ids`; special tokens are left out unless `keepSpecial`. Incomplete UTF-8 gives U+FFFD. */
  decode(ids: readonly number[], options?: { readonly keepSpecial?: boolean }): string;
  /** The bytes that one token stands for (empty for special tokens that carry no text). */
  tokenBytes(id: number): Uint8Array;
  /** Whether `id` is a special (control) token. */
  isSpecial(id: number): boolean;
}
