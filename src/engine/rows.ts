import type { Sequence } from "./sequence.ts";

/** Something that is aligned with the rows. It follows every `append` and `compact` of the table it was given to. */
export interface RowColumn {
  readonly length: number;
  /** Adds the entry of a row that joins. */
  append(sequence: Sequence): void;
  /** Copies entry `from` over entry `to`. */
  move(from: number, to: number): void;
  /** Drops all entries from `length` on. */
  truncate(length: number): void;
  /** What is wrong with entry `row`, which belongs to `sequence`; null when it is right. */
  fault(row: number, sequence: Sequence): string | null;
}

/** A row that went into a hole: its KV must follow. */
export interface RowMove {
  readonly sequence: Sequence;
  readonly from: number;
  readonly to: number;
  /** Tokens in the cache. */
  readonly length: number;
}

/**
 * The rows that share steps. Row index and cache slot are the same number, and active rows are always the first `numRows`: a row that leaves
 * is replaced by the last one, so that nobody else's KV is copied and the active part of the cache is a view.
 */
export class RowTable {
  readonly #sequences: Sequence[] = [];

  constructor(readonly maxRows: number, readonly columns: readonly RowColumn[]) {}

  get numRows(): number {
    return this.#sequences.length;
  }

  get sequences(): readonly Sequence[] {
    return this.#sequences;
  }

  append(sequences: readonly Sequence[]): void {
    if (this.numRows + sequences.length > this.maxRows) {
      throw new RangeError(`Cannot add ${sequences.length} rows to ${this.numRows}: at most ${this.maxRows} share a step`);
    }
    for (const sequence of sequences) {
      sequence.slot = this.#sequences.length;
      this.#sequences.push(sequence);
      for (const column of this.columns) column.append(sequence);
    }
  }

  /** Keeps the rows that `isKept` names; the last rows move into the holes. Returns the moves, in the order in which the cache must make them. */
  compact(isKept: (sequence: Sequence) => boolean): RowMove[] {
    const kept = this.#sequences.map((sequence) => isKept(sequence));
    const numKept = kept.filter(Boolean).length;
    const leaving = this.#sequences.filter((_, row) => !kept[row]);
    const moves: RowMove[] = [];
    for (let to = 0, from = this.numRows - 1; to < numKept; to++) {
      if (kept[to]) continue;
      while (!kept[from]) from--;
      moves.push(this.#move(from--, to));
    }
    for (const sequence of leaving) sequence.slot = -1;
    this.#sequences.length = numKept;
    for (const column of this.columns) column.truncate(numKept);
    return moves;
  }

  /** @throws {Error} that names the row and what is out of step. */
  checkIntegrity(): void {
    for (const column of this.columns) {
      if (column.length !== this.numRows) throw new Error(`A column has ${column.length} entries for ${this.numRows} rows`);
    }
    const ids = new Set(this.#sequences.map((sequence) => sequence.id));
    if (ids.size !== this.numRows) throw new Error(`${this.numRows} rows have ${ids.size} ids`);
    for (const [row, sequence] of this.#sequences.entries()) {
      if (sequence.slot !== row) throw new Error(`Row ${row} ("${sequence.id}") has slot ${sequence.slot}`);
      const fault = this.columns.map((column) => column.fault(row, sequence)).find((text) => text !== null);
      if (fault) throw new Error(`Row ${row} ("${sequence.id}"): ${fault}`);
    }
  }

  #move(from: number, to: number): RowMove {
    const sequence = this.#sequences[from] as Sequence;
    this.#sequences[to] = sequence;
    sequence.slot = to;
    for (const column of this.columns) column.move(from, to);
    return { sequence, from, to, length: sequence.cachedLen };
  }
}
