import type { Drafter, DraftWish, Offering } from "./drafter.ts";
import { continuation, NgramIndex, type NgramMatch } from "./ngram_index.ts";
import { RowStates } from "./row_states.ts";
import type { RowColumn } from "./rows.ts";
import type { Sequence } from "./sequence.ts";

/** A match of few tokens is often chance: it is followed only so far. */
const DRAFTS_BY_SIZE: Readonly<Record<number, number>> = { 2: 2, 3: 4 };

/** Prompt lookup: what followed the row's last few tokens when they stood in its own text before. Needs no weights. */
export class NgramDrafter implements Drafter {
  readonly kind = "ngram";
  readonly columns: readonly RowColumn[];
  readonly #indices = new RowStates("n-gram index", () => new NgramIndex());

  constructor(readonly maxDrafts: number) {
    this.columns = [this.#indices];
  }

  /** The more tokens agree, the better the grade. */
  offer(sequence: Sequence): Offering | null {
    const match = this.#find(sequence);
    if (match === null) return null;
    return { maxDrafts: Math.min(this.maxDrafts, DRAFTS_BY_SIZE[match.size] ?? Infinity), grade: match.size };
  }

  propose(wishes: readonly DraftWish[]): void {
    for (const { sequence, numDrafts } of wishes) {
      const match = numDrafts > 0 ? this.#find(sequence) : null;
      if (match !== null) sequence.propose(continuation(sequence.tokens, sequence.length, match.at, numDrafts));
    }
  }

  /** The index reads the sequence when it is asked. */
  observe(): void {}

  #find(sequence: Sequence): NgramMatch | null {
    const index = this.#indices.of(sequence);
    index.extend(sequence.tokens, sequence.length);
    return index.find(sequence.tokens, sequence.length);
  }
}
