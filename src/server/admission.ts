/** How many sequences may be with the engine at once, and what a client beyond that is told. */
import { ApiError, invalidValue, shuttingDown } from "./errors.ts";

/** Weight of the newest request in the running mean of request times. */
const NEWEST_WEIGHT = 0.2;
const MAX_RETRY_AFTER_SECONDS = 60;

export class Admission {
  #numLive = 0;
  #isDraining = false;
  #meanMs = 1000;

  /** @param maxBatch rows that share a step. @param maxQueue sequences that may wait for a row. */
  constructor(readonly maxBatch: number, readonly maxQueue: number) {}

  get numLive(): number {
    return this.#numLive;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** From now on every request is refused; those that run go on. */
  drain(): void {
    this.#isDraining = true;
  }

  /**
   * Takes places for all sequences of a request, or for none: half a request in the queue would block others and serve nobody.
   * @returns gives the places back; to be called once, further calls do nothing.
   * @throws {ApiError} 429 with Retry-After, 503 while draining, 400 for a request that could never fit.
   */
  admit(numSequences: number, param: string, nowMs: () => number): () => void {
    const capacity = this.maxBatch + this.maxQueue;
    if (this.#isDraining) throw shuttingDown();
    if (numSequences > capacity) {
      throw invalidValue(
        param,
        `may ask for ${capacity} sequences at once (${this.maxBatch} rows, ${this.maxQueue} waiting); found ${numSequences}`,
      );
    }
    if (this.#numLive + numSequences > capacity) throw this.#queueFull(numSequences, capacity);
    this.#numLive += numSequences;
    const startMs = nowMs();
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      this.#numLive -= numSequences;
      this.#meanMs += NEWEST_WEIGHT * (nowMs() - startMs - this.#meanMs);
    };
  }

  #queueFull(numSequences: number, capacity: number): ApiError {
    // A place is free when one of the live sequences ends, and they end at even distances in the mean.
    const waitMs = this.#meanMs * Math.max(1, numSequences) / Math.max(1, this.maxBatch);
    const seconds = Math.min(MAX_RETRY_AFTER_SECONDS, Math.max(1, Math.ceil(waitMs / 1000)));
    const message =
      `The queue is full: ${this.#numLive} of ${capacity} sequences are live and the request asks for ${numSequences}; try again in ${seconds} s`;
    return new ApiError(429, message, { code: "queue_full", headers: { "retry-after": String(seconds) } });
  }
}

/** How many tokens a sequence may generate. */
export interface TokenBudget {
  readonly numPromptTokens: number;
  /** What the client asked for; null for the rest of the context. */
  readonly maxTokens: number | null;
  readonly maxContext: number;
  /** What memory holds of one sequence. @default no limit */
  readonly maxRowTokens?: number;
  readonly param: string;
}

/**
 * Cuts what was asked for to what the context holds.
 * @throws {ApiError} 400 `context_length_exceeded` when the prompt leaves no room for what was asked, with the numbers.
 */
export function admitTokens({ numPromptTokens, maxTokens, maxContext, maxRowTokens = Infinity, param }: TokenBudget): number {
  const numFree = Math.min(maxContext, maxRowTokens) - numPromptTokens;
  // A request that only scores its prompt (0 tokens) needs no room for an answer.
  if (numFree < 0 || (numFree === 0 && maxTokens !== 0)) {
    throw maxRowTokens < maxContext
      ? memoryOverflow(numPromptTokens, maxRowTokens, param)
      : contextOverflow(`${numPromptTokens}`, maxContext, param);
  }
  return Math.min(maxTokens ?? numFree, numFree);
}

function memoryOverflow(numPromptTokens: number, maxRowTokens: number, param: string): ApiError {
  const message =
    `This server's memory (--memory) holds ${maxRowTokens} tokens of one request, prompt and answer together; found a prompt of ${numPromptTokens} tokens`;
  return new ApiError(400, message, { param, code: "context_length_exceeded" });
}

/** @param found the prompt's tokens, in words when they were not counted. */
export function contextOverflow(found: string, maxContext: number, param: string): ApiError {
  const message = `This model's context holds ${maxContext} tokens, prompt and answer together; found a prompt of ${found} tokens`;
  return new ApiError(400, message, { param, code: "context_length_exceeded" });
}
