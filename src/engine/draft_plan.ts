import { DRAFT_ROW_WORDS, StructArray } from "../native/structs.ts";

/** One row's part in a call of a drafter's model. */
export interface DraftEntry {
  readonly slot: number;
  /** History entries of the row that the drafter's cache holds already. */
  readonly offset: number;
  readonly tokens: ArrayLike<number>;
  /** Trailing tokens whose logits are wanted. */
  readonly outputs: number;
  /** Rows of features in the output that the call reads. */
  readonly features: ArrayLike<number>;
}

/** One call of a drafter's model, packed as `rl_draft` takes it, rows in slot order. The buffers are reused from call to call. */
export class DraftPlan {
  readonly rows = new StructArray(DRAFT_ROW_WORDS);
  tokens = new Int32Array(0);
  sourceRows = new Int32Array(0);
  numRows = 0;
  numTokens = 0;
  numSourceRows = 0;

  clear(): void {
    this.numRows = this.numTokens = this.numSourceRows = 0;
  }

  /** @returns the row of features that the entry's last token leaves in the call's output. */
  add({ slot, offset, tokens, outputs, features }: DraftEntry): number {
    this.rows.reserve(this.numRows + 1);
    this.rows.int32.set([slot, offset, tokens.length, outputs, features.length], this.numRows * DRAFT_ROW_WORDS);
    this.tokens = written(this.tokens, this.numTokens, tokens);
    this.sourceRows = written(this.sourceRows, this.numSourceRows, features);
    this.numRows++;
    this.numTokens += tokens.length;
    this.numSourceRows += features.length;
    return this.numTokens - 1;
  }
}

/** `target` with `values` at `at`: a larger copy when they do not fit. */
function written(target: Int32Array<ArrayBuffer>, at: number, values: ArrayLike<number>): Int32Array<ArrayBuffer> {
  let array = target;
  if (at + values.length > array.length) {
    array = new Int32Array(Math.max(at + values.length, 2 * array.length));
    array.set(target);
  }
  array.set(values, at);
  return array;
}
