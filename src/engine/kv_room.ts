import type { ModelBackend } from "./backend.ts";
import { type KvSize, roundedCapacity } from "./memory_budget.ts";

/** Rows are given room to grow by this factor: every resize copies the cache. */
const HEADROOM = 1.25;
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

  get size(): KvSize {
    return { slots: this.#slots, capacity: this.#capacity };
  }

  /** Whether `numRows` rows, the longest of `longest` tokens, need another size. */
  needsGrowth(numRows: number, longest: number): boolean {
    return numRows > this.#slots || longest > this.#capacity;
  }

  /**
   * The size for `numRows` rows, the longest of `longest` tokens, with room to grow. A resize copies the whole cache whatever changes, so it also
   * takes back what is more than twice too large.
   */
  roomySize(numRows: number, longest: number): KvSize {
    const roomy = roomyCapacity(longest);
    const capacity = longest > this.#capacity
      ? roundedCapacity(Math.max(longest, HEADROOM * this.#capacity))
      : Math.min(this.#capacity, 2 * roomy);
    const slots = slotsFor(numRows, this.maxSlots);
    return { slots: numRows > this.#slots ? slots : Math.min(this.#slots, 2 * slots), capacity };
  }

  /** The least size that holds the rows. */
  tightSize(numRows: number, longest: number): KvSize {
    return numRows === 0 ? { slots: 0, capacity: 0 } : { slots: numRows, capacity: roundedCapacity(longest) };
  }

  /** @throws {BackendError} when the memory cannot be had; the size is then as before. */
  resize({ slots, capacity }: KvSize): void {
    this.backend.resize(slots, capacity);
    this.#slots = slots;
    this.#capacity = capacity;
    this.#numLooseSteps = 0;
  }

  /** Counts a step and gives memory back when the cache has long been far too large. */
  shrinkWhenLoose(numRows: number, longest: number): void {
    this.#numLooseSteps = this.isLoose(numRows, longest) ? this.#numLooseSteps + 1 : 0;
    if (this.#numLooseSteps >= STEPS_BEFORE_SHRINK) this.resize(this.#looseSize(numRows, longest));
  }

  /** The cache is far larger than these rows need. */
  isLoose(numRows: number, longest: number): boolean {
    const { slots, capacity } = this.#looseSize(numRows, longest);
    return numRows > 0 && SHRINK_FACTOR * slots * capacity <= this.#slots * this.#capacity;
  }

  #looseSize(numRows: number, longest: number): KvSize {
    return { slots: slotsFor(numRows, this.maxSlots), capacity: roomyCapacity(longest) };
  }

  /** Gives all memory back. Only when there are no rows. */
  release(): void {
    if (this.#slots > 0) this.resize({ slots: 0, capacity: 0 });
  }
}

function slotsFor(numRows: number, maxSlots: number): number {
  return Math.min(maxSlots, 2 ** Math.ceil(Math.log2(Math.max(1, numRows))));
}

/** What rows of `longest` tokens get, so that they need no more for a while. */
export function roomyCapacity(longest: number): number {
  return roundedCapacity(roomyLength(longest));
}

/** A row of `length` tokens when it has grown as far as rows are given room for. */
export function roomyLength(length: number): number {
  return HEADROOM * length;
}
