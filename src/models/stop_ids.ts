import type { Tokenizer } from "../tokenizer/tokenizer.ts";

/** Tokens that end a turn in the templates that write them. */
const END_OF_TURN = [
  "<|im_end|>",
  "<|eot_id|>",
  "<|eom_id|>",
  "<end_of_turn>",
  "<|end|>",
  "<|end_of_turn|>",
  "<|END_OF_TURN_TOKEN|>",
  "<|return|>",
];
/** Between documents of the training text: whatever comes after one does not answer anything. */
const END_OF_TEXT = ["<|endoftext|>", "<|end_of_text|>", "<|END_OF_TEXT|>"];

export interface StopIdSources {
  /** `eos_token_id` of config.json, generation_config.json and the like: numbers, lists, or nothing. */
  readonly declared: readonly unknown[];
  readonly tokenizer: Tokenizer | null;
  readonly templateSource: string | null;
  readonly vocabSize: number;
}

/** Ids that end a sequence, ascending. Declared ids outside the vocabulary cannot be drawn and are left out. */
export function collectStopIds({ declared, tokenizer, templateSource, vocabSize }: StopIdSources): number[] {
  const ids = new Set<number>();
  for (const id of declared.flat()) if (typeof id === "number") ids.add(id);
  const eosId = tokenizer?.eosId ?? null;
  if (eosId !== null) ids.add(eosId);
  for (const { content, id } of tokenizer?.specialTokens ?? []) {
    if (END_OF_TEXT.includes(content) || (END_OF_TURN.includes(content) && templateSource?.includes(content))) ids.add(id);
  }
  return [...ids].filter((id) => Number.isInteger(id) && id >= 0 && id < vocabSize).sort((a, b) => a - b);
}
