import type { EngineError } from "./engine.ts";
import type { RowUpdate } from "./messages.ts";

interface Waiter {
  readonly resolve: (result: IteratorResult<RowUpdate>) => void;
  readonly reject: (error: EngineError) => void;
}

/**
 * The updates of one request between the worker and whoever reads them. Holds no more than the request's tokens. Unlike an async generator,
 * `return` takes effect at once, also while `next` waits: that is how a client that went away frees its row.
 */
export class UpdateQueue implements AsyncIterableIterator<RowUpdate> {
  readonly #updates: RowUpdate[] = [];
  readonly #waiters: Waiter[] = [];
  #isEnded = false;
  #error: EngineError | null = null;

  /** `onReturn` is called once when the reader leaves before the end. */
  constructor(readonly onReturn: () => void) {}

  push(update: RowUpdate): void {
    if (this.#isEnded) return;
    if (update.finishReason !== null) this.#isEnded = true;
    const waiter = this.#waiters.shift();
    if (waiter) waiter.resolve({ done: false, value: update });
    else this.#updates.push(update);
    if (this.#isEnded) this.#releaseWaiters();
  }

  /** Ends the request with an error, which the reader gets after what is queued. */
  fail(error: EngineError): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const waiter = this.#waiters.shift();
    if (waiter) waiter.reject(error);
    else this.#error = error;
    this.#releaseWaiters();
  }

  next(): Promise<IteratorResult<RowUpdate>> {
    const value = this.#updates.shift();
    if (value) return Promise.resolve({ done: false, value });
    if (this.#error !== null) {
      const error = this.#error;
      this.#error = null;
      return Promise.reject(error);
    }
    if (this.#isEnded) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => this.#waiters.push({ resolve, reject }));
  }

  return(): Promise<IteratorResult<RowUpdate>> {
    this.#updates.length = 0;
    this.#error = null;
    if (!this.#isEnded) {
      this.#isEnded = true;
      this.#releaseWaiters();
      this.onReturn();
    }
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #releaseWaiters(): void {
    for (const { resolve } of this.#waiters.splice(0)) resolve({ done: true, value: undefined });
  }
}
