/** An engine without a model: every `stepMs` each row gets one token, as from a batch that decodes. */
import type { Engine, Updates } from "../../src/engine/engine.ts";
import { type EngineStats, type GenerateRequest, NO_STATS } from "../../src/engine/messages.ts";
import { UpdateQueue } from "../../src/engine/update_queue.ts";

interface Row {
  readonly request: GenerateRequest;
  readonly queue: UpdateQueue;
  numTokens: number;
}

export class PacedEngine implements Engine {
  readonly facts;
  readonly health = { ok: true, reason: "ok" };
  stats = NO_STATS;
  readonly #rows = new Set<Row>();
  readonly #listeners = new Set<(stats: EngineStats) => void>();
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(readonly vocabSize: number, readonly numRows: number, stepMs: number) {
    this.facts = { vocabSize, weightBytes: 0, kvBytesPerToken: 0, device: "none", loadMs: 0 };
    this.#timer = setInterval(() => this.#step(), stepMs);
  }

  generate(request: GenerateRequest): Updates {
    const queue = new UpdateQueue(() => this.#rows.delete(row));
    const row: Row = { request, queue, numTokens: 0 };
    this.#rows.add(row);
    return queue;
  }

  onStep(listener: (stats: EngineStats) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  limitMemory(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    clearInterval(this.#timer);
    return Promise.resolve();
  }

  /** Waits until all rows are there, so that every step has all of them. */
  #step(): void {
    const isStarted = [...this.#rows].some(({ numTokens }) => numTokens > 0);
    if (this.#rows.size === 0 || (!isStarted && this.#rows.size < this.numRows)) return;
    for (const row of this.#rows) this.#feed(row);
    this.stats = { ...this.stats, steps: this.stats.steps + 1, stepRows: this.#rows.size };
    for (const listener of this.#listeners) listener(this.stats);
  }

  #feed(row: Row): void {
    const { request: { id, maxTokens }, queue } = row;
    row.numTokens++;
    const isLast = row.numTokens >= maxTokens;
    // A walk through the vocabulary's words: pieces of text as long as those of real answers.
    const token = 1000 + (row.numTokens * 7919) % (this.vocabSize - 1000);
    queue.push({
      id,
      tokens: [token],
      logprobs: [],
      finishReason: isLast ? "length" : null,
      ...(isLast ? { timings: { queueMs: 0, prefillMs: 0, decodeMs: 1 } } : {}),
    });
    if (isLast) this.#rows.delete(row);
  }
}
