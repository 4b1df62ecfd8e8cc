import type { Drafter, DraftWish } from "./drafter.ts";
import { continuation, NgramIndex } from "./ngram_index.ts";
import { RowStates } from "./row_states.ts";
import type { Sequence } from "./sequence.ts";

/** Prompt lookup: what followed the row's last few tokens when they stood in its own text before. Needs no weights. */
export class NgramDrafter implements Drafter {
  readonly kind = "ngram";
  readonly column = new RowStates("n-gram index", () => new NgramIndex());

  constructor(readonly maxDrafts: number) {}

  offer(sequence: Sequence): number {
    return this.#find(sequence) < 0 ? 0 : this.maxDrafts;
  }

  propose(wishes: readonly DraftWish[]): void {
    for (const { sequence, numDrafts } of wishes) {
      const at = numDrafts > 0 ? this.#find(sequence) : -1;
      if (at >= 0) sequence.propose(continuation(sequence.tokens, sequence.length, at, numDrafts));
    }
  }

  /** The index reads the sequence when it is asked. */
  observe(): void {}

  #find(sequence: Sequence): number {
    const index = this.column.of(sequence);
    index.extend(sequence.tokens, sequence.length);
    return index.find(sequence.tokens, sequence.length);
  }
}
