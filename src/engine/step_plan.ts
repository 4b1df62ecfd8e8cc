import { ROW_VERIFY, ROW_WORDS, StructArray } from "../native/structs.ts";
import type { Sequence } from "./sequence.ts";

/** `flags` of a row whose tokens are not undone. */
const NO_FLAGS = 0;

/** One row's part in a step. */
export interface StepRow {
  readonly sequence: Sequence;
  /** Tokens to compute, ≥ 1. */
  readonly count: number;
  /** Trailing positions whose logits are wanted. */
  readonly outputs: number;
  /** The last logits row is drawn from: the step brings the sequence a token. */
  readonly isSampled: boolean;
  /** The last so many tokens are drafts: their logits rows and the one before them are drawn from. */
  readonly numDrafts: number;
}

/** The one forward of a step: its rows in slot order, packed as `rl_forward` takes them. The buffers are reused from step to step. */
export class StepPlan {
  readonly rows = new StructArray(ROW_WORDS);
  tokens = new Int32Array(0);
  numTokens = 0;
  numOutputs = 0;
  readonly #stepRows: StepRow[] = [];

  get numRows(): number {
    return this.#stepRows.length;
  }

  get stepRows(): readonly StepRow[] {
    return this.#stepRows;
  }

  clear(): void {
    this.#stepRows.length = 0;
    this.numTokens = this.numOutputs = 0;
  }

  /** Adds a row in any order; `pack` sorts. */
  add(row: StepRow): void {
    this.#stepRows.push(row);
  }

  /** Makes this the plan of the step after `plan`, whose rows all draw one token and go on with it. The tokens are not known yet. */
  follow(plan: StepPlan): void {
    this.clear();
    this.rows.reserve(plan.numRows);
    for (const [index, { sequence, count }] of plan.stepRows.entries()) {
      this.#stepRows.push({ sequence, count: 1, outputs: 1, isSampled: true, numDrafts: 0 });
      this.rows.int32.set([sequence.slot, sequence.cachedLen + count, 1, 1, NO_FLAGS], index * ROW_WORDS);
    }
    this.numTokens = this.numOutputs = this.numRows;
  }

  /** Puts the rows in slot order, which the forward runs fastest, and packs them and their pending tokens. */
  pack(): void {
    this.#stepRows.sort((a, b) => a.sequence.slot - b.sequence.slot);
    this.rows.reserve(this.numRows);
    const numTokens = this.#stepRows.reduce((sum, row) => sum + row.count, 0);
    if (this.tokens.length < numTokens) this.tokens = new Int32Array(Math.max(numTokens, 2 * this.tokens.length));
    for (const [index, { sequence, count, outputs, numDrafts }] of this.#stepRows.entries()) {
      const { slot, cachedLen } = sequence;
      this.rows.int32.set([slot, cachedLen, count, outputs, numDrafts > 0 ? ROW_VERIFY : NO_FLAGS], index * ROW_WORDS);
      this.tokens.set(sequence.tokens.subarray(cachedLen, cachedLen + count), this.numTokens);
      this.numTokens += count;
      this.numOutputs += outputs;
    }
  }
}
