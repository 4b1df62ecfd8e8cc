import type { EngineError, UpdateListener, Updates } from "./engine.ts";
import type { RowUpdate } from "./messages.ts";

interface Waiter {
  readonly resolve: (result: IteratorResult<RowUpdate>) => void;
  readonly reject: (error: EngineError) => void;
}

/**
 * The updates of one request between the worker and whoever reads them. Holds no more than the request's tokens. Unlike an async generator,
 * `return` takes effect at once, also while `next` waits: that is how a client that went away frees its row.
 */
export class UpdateQueue implements Updates {
  readonly #updates: RowUpdate[] = [];
  readonly #waiters: Waiter[] = [];
  #listener: UpdateListener | null = null;
  #isEnded = false;
  #error: EngineError | null = null;

  /** `onReturn` is called once when the reader leaves before the end. */
  constructor(readonly onReturn: () => void) {}

  push(update: RowUpdate): void {
    if (this.#isEnded) return;
    if (update.finishReason !== null) this.#isEnded = true;
    if (this.#listener !== null) return this.#listener.onUpdate(update);
    const waiter = this.#waiters.shift();
    if (waiter) waiter.resolve({ done: false, value: update });
    else this.#updates.push(update);
    if (this.#isEnded) this.#releaseWaiters();
  }

  /** Ends the request with an error, which the reader gets after what is queued. */
  fail(error: EngineError): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    if (this.#listener !== null) return this.#listener.onFailure(error);
    const waiter = this.#waiters.shift();
    if (waiter) waiter.reject(error);
    else this.#error = error;
    this.#releaseWaiters();
  }

  listen(listener: UpdateListener): void {
    queueMicrotask(() => {
      this.#listener = listener;
      // Who listens may leave at any of them, which empties the queue.
      for (let update = this.#updates.shift(); update !== undefined; update = this.#updates.shift()) listener.onUpdate(update);
      const error = this.#takeError();
      if (error !== null) listener.onFailure(error);
    });
  }

  next(): Promise<IteratorResult<RowUpdate>> {
    const value = this.#updates.shift();
    if (value) return Promise.resolve({ done: false, value });
    const error = this.#takeError();
    if (error !== null) return Promise.reject(error);
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

  #takeError(): EngineError | null {
    const error = this.#error;
    this.#error = null;
    return error;
  }

  #releaseWaiters(): void {
    for (const { resolve } of this.#waiters.splice(0)) resolve({ done: true, value: undefined });
  }
}
