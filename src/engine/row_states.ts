import type { RowColumn } from "./rows.ts";
import type { Sequence } from "./sequence.ts";

/** One object for each row, made when the row joins. Follows the row table like every other column. */
export class RowStates<State> implements RowColumn {
  readonly #entries: { readonly sequence: Sequence; readonly state: State }[] = [];

  constructor(readonly name: string, readonly create: (sequence: Sequence) => State) {}

  get length(): number {
    return this.#entries.length;
  }

  append(sequence: Sequence): void {
    this.#entries.push({ sequence, state: this.create(sequence) });
  }

  move(from: number, to: number): void {
    const entry = this.#entries[from];
    if (entry !== undefined) this.#entries[to] = entry;
  }

  truncate(length: number): void {
    this.#entries.length = length;
  }

  fault(row: number, sequence: Sequence): string | null {
    const owner = this.#entries[row]?.sequence;
    return owner === sequence ? null : `the ${this.name} there is that of "${owner?.id}"`;
  }

  /** @throws {RangeError} when the sequence has no row. */
  of(sequence: Sequence): State {
    const entry = this.#entries[sequence.slot];
    if (entry?.sequence !== sequence) throw new RangeError(`Sequence "${sequence.id}" has no ${this.name} at row ${sequence.slot}`);
    return entry.state;
  }
}
