import type { DraftFailures, DraftKind } from "./messages.ts";
import type { RowColumn } from "./rows.ts";
import type { Sequence } from "./sequence.ts";
import type { StepPlan } from "./step_plan.ts";

/** How many tokens a drafter shall propose for a row; 0 lets it only keep its own state up to date. */
export interface DraftWish {
  readonly sequence: Sequence;
  readonly numDrafts: number;
}

/** What a drafter could propose for a row. */
export interface Offering {
  readonly maxDrafts: number;
  /** Offers of one row and the same grade are taken to be right equally often. */
  readonly grade: number;
}

/** Proposes tokens for rows. What it proposes changes how fast a row gets its text, never the text. */
export interface Drafter {
  readonly kind: DraftKind;
  /** Drafts of one row in one round, at most. */
  readonly maxDrafts: number;
  /** What it keeps for each row; goes into the row table. */
  readonly columns: readonly RowColumn[];
  /** null while nothing has failed; a drafter that cannot fail has none. */
  readonly failures?: DraftFailures | null;
  /** What it could propose for this row now; null when it has nothing. */
  offer(sequence: Sequence): Offering | null;
  /** Tokens of the row that its own model's history covers, which pages keep too; null without such a history, or when it has a gap. */
  historyLength?(sequence: Sequence): number | null;
  /** Pages have been loaded: the history covers the row's first `length` tokens. */
  restoreHistory?(sequence: Sequence, length: number): void;
  /**
   * Calls `Sequence.propose` for the rows with a wish, with at most so many drafts, and for no others: another drafter may have. Gets all rows
   * that use this drafter, those that still prefill too.
   */
  propose(wishes: readonly DraftWish[]): void;
  /** Called when a step's results are in the sequences, before anything moves. `isOwn` names the rows that use this drafter. */
  observe(plan: StepPlan, isOwn: (sequence: Sequence) => boolean): void;
}
