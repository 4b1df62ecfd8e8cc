import type { RowTable } from "./rows.ts";
import type { Sequence } from "./sequence.ts";
import type { StepPlan, StepRow } from "./step_plan.ts";

/** A scored prompt wants the logits of every position; this many bytes of them may be asked for in one step. */
const SCORED_LOGITS_BYTES = 32 * 2 ** 20;

/** How many of `count` tokens the row may compute in this step; 0: none. Never fewer for a larger `count`. */
export type ChunkLimit = (sequence: Sequence, count: number) => number;

/**
 * Puts prompt tokens into the step, packed without padding, at most `chunk` over all rows: that bounds how long rows that decode wait. Half of
 * the chunk is for the prompt that came first: whatever else comes, it is done after as many steps as it has half chunks, and every prompt
 * is the first one at some time. The rest of the chunk goes to the prompts with the least left to compute: a short one does not wait for
 * long ones. Equal prompts are computed one after the other, each as soon as it can be.
 */
export class PrefillManager {
  readonly #maxScored: number;

  constructor(readonly chunk: number, vocabSize: number) {
    this.#maxScored = Math.max(1, Math.floor(SCORED_LOGITS_BYTES / (4 * vocabSize)));
  }

  schedule(rows: RowTable, plan: StepPlan, limit: ChunkLimit = (_, count) => count): void {
    const waiting = rows.sequences.filter((sequence) => sequence.isPrefilling);
    if (waiting.length === 0) return;
    const shares = new ChunkShares(this.chunk, this.#maxScored, limit);
    waiting.sort((a, b) => a.arrival - b.arrival);
    // Who may compute nothing now leaves the half to the next one.
    for (const sequence of waiting) if (shares.give(sequence, Math.ceil(this.chunk / 2))) break;
    // A stable sort: of two with equally much left, the one that came first goes first.
    waiting.sort((a, b) => shares.numLeft(a) - shares.numLeft(b));
    for (const sequence of waiting) shares.give(sequence, this.chunk);
    for (const [sequence, count] of shares.counts) plan.add(prefillRow(sequence, count));
  }
}

/** How one step's chunk is shared out. */
class ChunkShares {
  readonly counts = new Map<Sequence, number>();
  #numFree: number;
  #numScoredFree: number;

  constructor(chunk: number, maxScored: number, readonly limit: ChunkLimit) {
    this.#numFree = chunk;
    this.#numScoredFree = maxScored;
  }

  /** Tokens of the row that are left for later steps. */
  numLeft(sequence: Sequence): number {
    return sequence.numPending - (this.counts.get(sequence) ?? 0);
  }

  /** Gives the row up to `most` tokens on top of what it has. @returns whether it got any. */
  give(sequence: Sequence, most: number): boolean {
    const before = this.counts.get(sequence) ?? 0;
    const numMore = Math.min(most, this.#numFree, sequence.needsScores ? this.#numScoredFree : Infinity);
    const wanted = Math.min(sequence.numPending, before + numMore);
    const count = wanted === before ? before : this.limit(sequence, wanted);
    if (count <= before) return false;
    this.counts.set(sequence, count);
    this.#numFree -= count - before;
    if (sequence.needsScores) this.#numScoredFree -= count - before;
    return true;
  }
}

function prefillRow(sequence: Sequence, count: number): StepRow {
  const isSampled = count === sequence.numPending && sequence.request.maxTokens > 0;
  return { sequence, count, outputs: sequence.needsScores ? count : Number(isSampled), isSampled, numDrafts: 0 };
}
