/** Bounds what all request bodies take together while they are read and parsed. */
import { ApiError } from "./errors.ts";

/** Bodies up to this are never refused: together they are few bytes, and nearly all requests are among them. */
const SMALL_BYTES = 1 << 16;
const RETRY_AFTER_SECONDS = 2;
const MIN_BUDGET_BYTES = 32 * 2 ** 20;
const NUM_LARGEST = 2;
/** Memory for a byte of a body, as measured: its text, the parts that it came in, and what is not yet collected of them. */
const MEMORY_PER_BYTE = 2;

/** Room for two of the largest bodies at once. @param maxBodyBytes of one body. */
export function bodyBudgetBytes(maxBodyBytes: number): number {
  return Math.max(MIN_BUDGET_BYTES, NUM_LARGEST * maxBodyBytes);
}

/** The memory that a budget of `bodyBudgetBytes` stands for. */
export function bodyMemoryBytes(maxBodyBytes: number): number {
  return MEMORY_PER_BYTE * bodyBudgetBytes(maxBodyBytes);
}

interface Waiter {
  readonly numBytes: number;
  readonly grant: () => void;
}

/** Clients that send much and then nothing would otherwise hold as many bodies as there are connections. */
export class BodyBudget {
  #numBytes = 0;
  readonly #waiting: Waiter[] = [];

  /** @param waitMs how long a body waits for others to be done before it is refused. */
  constructor(readonly maxBytes: number, readonly waitMs: number) {}

  /** Of all bodies that are being read or parsed. */
  get numBytes(): number {
    return this.#numBytes;
  }

  /** The share of one body, of nothing yet. */
  open(): BodyShare {
    return new BodyShare(this);
  }

  /** Without a question. */
  add(numBytes: number): void {
    this.#numBytes += numBytes;
  }

  /**
   * @param isBegun a body of which a part is held already: it goes first, as it gives its part back only when it has all of it.
   * @throws {ApiError} 503 when there is no room in time.
   */
  async take(numBytes: number, isBegun: boolean): Promise<void> {
    if (this.#hasRoom(numBytes) && (isBegun || this.#waiting.length === 0)) return this.add(numBytes);
    const granted = Promise.withResolvers<void>();
    const waiter = { numBytes, grant: granted.resolve };
    if (isBegun) this.#waiting.unshift(waiter);
    else this.#waiting.push(waiter);
    const timer = setTimeout(() => {
      this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
      granted.reject(this.#full());
      this.#grantWaiting();
    }, this.waitMs);
    try {
      await granted.promise;
    } finally {
      clearTimeout(timer);
    }
  }

  give(numBytes: number): void {
    this.#numBytes -= numBytes;
    this.#grantWaiting();
  }

  #hasRoom(numBytes: number): boolean {
    return this.#numBytes + numBytes <= this.maxBytes;
  }

  /** In their order: a large body must not starve behind small ones. */
  #grantWaiting(): void {
    while (this.#waiting.length > 0 && this.#hasRoom(this.#waiting[0]!.numBytes)) {
      const { numBytes, grant } = this.#waiting.shift()!;
      this.add(numBytes);
      grant();
    }
  }

  #full(): ApiError {
    const message = `The bodies of all requests together may have ${this.maxBytes} bytes while they are read; ` +
      `found ${this.#numBytes} in use; try again in ${RETRY_AFTER_SECONDS} s`;
    // What is left of the body is not read, so the connection is of no more use.
    return new ApiError(503, message, {
      code: "server_busy",
      headers: { "retry-after": String(RETRY_AFTER_SECONDS), connection: "close" },
    });
  }
}

/** What one body holds of the budget. */
export class BodyShare implements Disposable {
  #numBytes = 0;

  constructor(readonly budget: BodyBudget) {}

  /** Makes the share at least `numBytes`. @throws {ApiError} 503 when there is no room in time. */
  async grow(numBytes: number): Promise<void> {
    const more = numBytes - this.#numBytes;
    if (more <= 0) return;
    if (numBytes <= SMALL_BYTES) this.budget.add(more);
    else await this.budget.take(more, this.#numBytes > SMALL_BYTES);
    this.#numBytes = numBytes;
  }

  [Symbol.dispose](): void {
    this.budget.give(this.#numBytes);
    this.#numBytes = 0;
  }
}
