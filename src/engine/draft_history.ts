import { ROW_WORDS } from "../native/structs.ts";
import { RowStates } from "./row_states.ts";
import type { Sequence } from "./sequence.ts";
import type { StepPlan } from "./step_plan.ts";

/**
 * How far one row's history in a drafter's cache goes. Entry i stands for token i of the row and needs the features that the model's forward
 * left for it; those of the last forward are there until the next one, so the history follows every step.
 */
export class DraftHistory {
  /** Entries in the drafter's cache. */
  length = 0;
  /** Entries behind them that the drafter made from its own features while it drafted. */
  numOwn = 0;
  /** Steps that no right draft has paid for. */
  numIdle = 0;
  /** The row had drafts of this drafter in the step before. */
  hasDrafted = false;
  /** There is a gap: the row cannot be drafted for any more. */
  isLost = false;
  #firstToken = 0;
  #firstFeature = 0;

  /** @param keepsOwn own entries stay as far as the drafts were right; else those tokens get entries from the model's features. */
  constructor(readonly keepsOwn: boolean) {}

  /**
   * The first `length` entries have come from pages. The last one was made for whatever token followed there: when that is another one here,
   * drafts may be a little worse.
   */
  restore(length: number): void {
    this.length = length;
    this.numOwn = 0;
  }

  /** The row took part in a forward from token `firstToken` on, whose features begin at row `firstFeature`. */
  observe(sequence: Sequence, firstToken: number, firstFeature: number): void {
    this.#firstToken = firstToken;
    this.#firstFeature = firstFeature;
    this.length = Math.min(this.length + (this.keepsOwn ? Math.min(this.numOwn, sequence.numAccepted) : 0), sequence.cachedLen);
    this.numOwn = 0;
    if (this.length < firstToken) this.isLost = true;
  }

  /** Tokens that the cache of the model holds and the history does not. */
  numMissing(sequence: Sequence): number {
    return this.isLost ? 0 : Math.max(0, sequence.cachedLen - this.length);
  }

  /** Rows of features of the missing tokens. */
  missingFeatures(sequence: Sequence): Int32Array<ArrayBuffer> {
    const first = this.#firstFeature + this.length - this.#firstToken;
    return Int32Array.from({ length: this.numMissing(sequence) }, (_, i) => first + i);
  }
}

/** The histories of all rows. */
export class DraftHistories extends RowStates<DraftHistory> {
  constructor(keepsOwn: boolean) {
    super("draft history", () => new DraftHistory(keepsOwn));
  }

  /** Takes in what a step has computed for the rows that `isOwn` names. */
  observe(plan: StepPlan, isOwn: (sequence: Sequence) => boolean): void {
    let feature = 0;
    for (const [i, { sequence, count }] of plan.stepRows.entries()) {
      const offset = plan.rows.int32[i * ROW_WORDS + 1] ?? 0;
      if (isOwn(sequence)) this.of(sequence).observe(sequence, offset, feature);
      feature += count;
    }
  }
}
