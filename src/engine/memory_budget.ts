import type { EngineFacts } from "./messages.ts";

/** Capacity is a multiple of this many tokens. */
const CAPACITY_QUANTUM = 64;
/** What an allocation that failed has taught is forgotten after so many steps: the memory may be there again. */
const STEPS_BEFORE_RECOVERY = 512;

/** Size of the cache: so many slots of so many tokens. */
export interface KvSize {
  readonly slots: number;
  readonly capacity: number;
}

/** What a cache takes memory for. */
export interface KvUse {
  readonly slots: number;
  /** Of all slots together. */
  readonly numTokens: number;
  /** Tokens that a step may look at in one slot. */
  readonly longest: number;
}

/** What the parts of an engine take, in bytes. */
export interface MemoryCosts {
  /** Weights, and a step's temporaries that do not depend on what is in the cache. */
  readonly fixedBytes: number;
  /** Keys and values of one token. */
  readonly bytesPerToken: number;
  /** Recurrent states of one slot, and page tables. */
  readonly bytesPerSlot: number;
  /** A step's temporaries for each token of the longest row: scores of attention. */
  readonly stepBytesPerToken: number;
}

/**
 * How the memory that an engine may take is shared. Weights and a step's temporaries are fixed; the rest is room for the rows' cache and for
 * prefix pages, rows first. It only counts: who needs more than there is gives something up (`make_room.ts`).
 */
export class MemoryBudget {
  #limitBytes: number;
  #loweredBytes = Infinity;
  #numStepsLowered = 0;
  /** The longest row that fits when it is alone, in tokens; 0: none. By the limit at the start, which is the most that the engine ever gets. */
  readonly maxRowTokens: number;

  constructor(readonly costs: MemoryCosts, limitBytes: number = Infinity) {
    this.#limitBytes = limitBytes;
    this.maxRowTokens = this.#tokensOfOneRow();
  }

  get limitBytes(): number {
    return this.#limitBytes;
  }

  /** What the cache and prefix pages may take together. */
  get roomBytes(): number {
    return Math.max(0, Math.min(this.#limitBytes - this.costs.fixedBytes, this.#loweredBytes));
  }

  /** What a cache takes, with what a step over it needs for a moment. */
  kvBytes({ slots, numTokens, longest }: KvUse): number {
    const { bytesPerToken, bytesPerSlot, stepBytesPerToken } = this.costs;
    return numTokens * bytesPerToken + slots * bytesPerSlot + longest * stepBytesPerToken;
  }

  /** All that the engine takes with such a cache and without prefix pages. */
  totalBytes(use: KvUse): number {
    return this.costs.fixedBytes + this.kvBytes(use);
  }

  /** What is missing for such a cache beside so many bytes of prefix pages; 0 or less when it fits. */
  excess(use: KvUse, prefixBytes: number): number {
    return this.kvBytes(use) + prefixBytes - this.roomBytes;
  }

  /** The engine may take more or less from now on. */
  limit(limitBytes: number): void {
    this.#limitBytes = limitBytes;
  }

  /** So much could not be had, whatever the limit says: for a while there is less. */
  lower(failedBytes: number): void {
    this.#loweredBytes = Math.min(this.#loweredBytes, failedBytes - 1);
    this.#numStepsLowered = 0;
  }

  /** A step went well. */
  passStep(): void {
    if (++this.#numStepsLowered >= STEPS_BEFORE_RECOVERY) this.recover();
  }

  recover(): void {
    this.#loweredBytes = Infinity;
  }

  #tokensOfOneRow(): number {
    const { bytesPerToken, bytesPerSlot, stepBytesPerToken } = this.costs;
    const most = (this.roomBytes - bytesPerSlot) / (bytesPerToken + stepBytesPerToken);
    return most === Infinity ? Infinity : CAPACITY_QUANTUM * Math.max(0, Math.floor(most / CAPACITY_QUANTUM));
  }
}

/** Of a cache that takes memory for all that it has room for. */
export function denseUse({ slots, capacity }: KvSize): KvUse {
  return { slots, numTokens: slots * capacity, longest: capacity };
}

/** Of a cache that takes memory for rows of these lengths, whatever its capacity. */
export function sparseUse(slots: number, lengths: readonly number[]): KvUse {
  const taken = lengths.map(roundedCapacity);
  return { slots, numTokens: taken.reduce((sum, length) => sum + length, 0), longest: Math.max(0, ...taken) };
}

/** The least capacity that holds so many tokens. */
export function roundedCapacity(numTokens: number): number {
  return Math.ceil(numTokens / CAPACITY_QUANTUM) * CAPACITY_QUANTUM;
}

/** The costs of a model when so many tokens are computed in one step at most. */
export function memoryCosts(
  facts: Pick<EngineFacts, "weightBytes" | "kvBytesPerToken" | "kvBytesPerSlot" | "tableBytesPerSlot" | "step">,
  numStepTokens: number,
): MemoryCosts {
  const { weightBytes, kvBytesPerToken, kvBytesPerSlot = 0, tableBytesPerSlot = 0, step = { bytesPerToken: 0, bytesPerPair: 0 } } = facts;
  return {
    fixedBytes: weightBytes + numStepTokens * step.bytesPerToken,
    bytesPerToken: kvBytesPerToken,
    bytesPerSlot: kvBytesPerSlot + tableBytesPerSlot,
    stepBytesPerToken: numStepTokens * step.bytesPerPair,
  };
}
