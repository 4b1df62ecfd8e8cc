import type { ModelBackend } from "./backend.ts";

/** Capacity is a multiple of this many tokens. */
const CAPACITY_QUANTUM = 64;
/** A cache that has been four times too large for this many steps shrinks. */
const STEPS_BEFORE_SHRINK = 128;
const SHRINK_FACTOR = 4;

/** The size of the cache: it follows the rows that are there, never what they might become. */
export class KvRoom {
  #slots = 0;
  #capacity = 0;
  #numLooseSteps = 0;

  constructor(readonly backend: Pick<ModelBackend, "resize">, readonly maxSlots: number) {}

  get slots(): number {
    return this.#slots;
  }

  get capacity(): number {
    return this.#capacity;
  }

  /** Whether `numRows` rows, the longest of `longest` tokens, need another size. */
  needsGrowth(numRows: number, longest: number): boolean {
    return numRows > this.#slots || longest > this.#capacity;
  }

  /**
   * Makes room. A resize copies the whole cache whatever changes, so it also takes back what is more than twice too large.
   * @throws {BackendError} when the memory cannot be had; the size is then as before.
   */
  grow(numRows: number, longest: number): void {
    const roomy = rounded(1.25 * longest);
    const capacity = longest > this.#capacity ? rounded(Math.max(longest, 1.25 * this.#capacity)) : Math.min(this.#capacity, 2 * roomy);
    const slots = slotsFor(numRows, this.maxSlots);
    this.#resize(numRows > this.#slots ? slots : Math.min(this.#slots, 2 * slots), capacity);
  }

  /** Counts a step and gives memory back when the cache has long been far too large. */
  shrinkWhenLoose(numRows: number, longest: number): void {
    const slots = slotsFor(numRows, this.maxSlots);
    const capacity = rounded(1.25 * longest);
    const isLoose = numRows > 0 && SHRINK_FACTOR * slots * capacity <= this.#slots * this.#capacity;
    this.#numLooseSteps = isLoose ? this.#numLooseSteps + 1 : 0;
    if (this.#numLooseSteps >= STEPS_BEFORE_SHRINK) this.#resize(slots, capacity);
  }

  /** Gives all memory back. Only when there are no rows. */
  release(): void {
    if (this.#slots > 0) this.#resize(0, 0);
  }

  #resize(slots: number, capacity: number): void {
    this.backend.resize(slots, capacity);
    this.#slots = slots;
    this.#capacity = capacity;
    this.#numLooseSteps = 0;
  }
}

function slotsFor(numRows: number, maxSlots: number): number {
  return Math.min(maxSlots, 2 ** Math.ceil(Math.log2(Math.max(1, numRows))));
}

function rounded(capacity: number): number {
  return Math.ceil(capacity / CAPACITY_QUANTUM) * CAPACITY_QUANTUM;
}
