import type { RowTable } from "./rows.ts";
import type { Sequence } from "./sequence.ts";
import type { StepPlan, StepRow } from "./step_plan.ts";

/** A scored prompt wants the logits of every position; this many bytes of them may be asked for in one step. */
const SCORED_LOGITS_BYTES = 32 * 2 ** 20;

/** How many of `count` tokens the row may compute in this step; 0: none. */
export type ChunkLimit = (sequence: Sequence, count: number) => number;

/**
 * Puts prompt tokens into the step, first come first served, at most `chunk` over all rows: that bounds how long rows that decode wait.
 * Several short prompts share a chunk; a long one is continued in the next step.
 */
export class PrefillManager {
  readonly #maxScored: number;

  constructor(readonly chunk: number, vocabSize: number) {
    this.#maxScored = Math.max(1, Math.floor(SCORED_LOGITS_BYTES / (4 * vocabSize)));
  }

  schedule(rows: RowTable, plan: StepPlan, limit: ChunkLimit = (_, count) => count): void {
    const waiting = rows.sequences.filter((sequence) => sequence.isPrefilling);
    if (waiting.length > 1) waiting.sort((a, b) => a.arrival - b.arrival);
    let budget = this.chunk;
    let scoredBudget = this.#maxScored;
    for (const sequence of waiting) {
      const most = Math.min(sequence.numPending, sequence.isScored ? Math.min(budget, scoredBudget) : budget);
      const count = most === 0 ? 0 : limit(sequence, most);
      if (count === 0) continue;
      budget -= count;
      if (sequence.isScored) scoredBudget -= count;
      plan.add(prefillRow(sequence, count));
    }
  }
}

function prefillRow(sequence: Sequence, count: number): StepRow {
  const isSampled = count === sequence.numPending && sequence.request.maxTokens > 0;
  return { sequence, count, outputs: sequence.isScored ? count : Number(isSampled), isSampled, numDrafts: 0 };
}
