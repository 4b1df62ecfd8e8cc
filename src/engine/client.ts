import { type Engine, EngineError, type Updates } from "./engine.ts";
import {
  type EngineFacts,
  type EngineOptions,
  type EngineStats,
  type FromEngine,
  type GenerateRequest,
  type MessageCount,
  NO_STATS,
  type RowUpdate,
  type ToEngine,
} from "./messages.ts";
import { type PackedMessage, StepUnpacker } from "./packed_step.ts";
import { UpdateQueue } from "./update_queue.ts";

export interface EngineClientOptions {
  /** Module of the worker; tests bring one with a backend of their own. @default the engine's worker.ts */
  readonly workerUrl?: URL;
  /** With requests running and no step for this long, the engine counts as hung and `health` says so. @default 120000 */
  readonly stallTimeoutMs?: number;
  /** How often a dead engine is started again before it is given up. @default 3 */
  readonly maxRestarts?: number;
  /** The restarts are counted within this time. @default 600000 */
  readonly restartWindowMs?: number;
}

const DEFAULTS = { workerUrl: new URL("./worker.ts", import.meta.url), stallTimeoutMs: 120_000, maxRestarts: 3, restartWindowMs: 600_000 };
const CLOSE_TIMEOUT_MS = 5_000;

/**
 * The engine in its worker. Routes updates to the requests they belong to. When the worker dies, every request ends with an error and the
 * worker is started again.
 */
export class EngineClient implements Engine {
  #facts: EngineFacts | null = null;
  #stats = NO_STATS;
  #worker: Worker | null = null;
  #numUnread = newMessageCount();
  /** "" while requests can be served, else why not. */
  #fault = "The model is loading";
  #isClosed = false;
  #lastSignMs = performance.now();
  #onLoaded = Promise.withResolvers<void>();
  #onClosed: (() => void) | null = null;
  /** What the engine was told after it was loaded. */
  #memoryBytes: number | null = null;
  /** One for each `limit` that has no answer yet. */
  readonly #onLimited: (() => void)[] = [];
  readonly #deathsMs: number[] = [];
  readonly #queues = new Map<string, UpdateQueue>();
  readonly #listeners = new Set<(stats: EngineStats) => void>();
  readonly #settings: Required<EngineClientOptions>;

  private constructor(readonly options: EngineOptions, settings: EngineClientOptions) {
    this.#settings = { ...DEFAULTS, ...settings };
  }

  /** Starts the worker and loads the model. @throws {EngineError} with the reason when it cannot be loaded. */
  static async start(options: EngineOptions, settings: EngineClientOptions = {}): Promise<EngineClient> {
    const client = new EngineClient(options, settings);
    client.#spawn();
    await client.#onLoaded.promise;
    return client;
  }

  get facts(): EngineFacts {
    if (this.#facts === null) throw new TypeError("The engine's facts are known when its model is loaded");
    return this.#facts;
  }

  get stats(): EngineStats {
    return this.#stats;
  }

  get health(): { readonly ok: boolean; readonly reason: string } {
    if (this.#fault !== "") return { ok: false, reason: this.#fault };
    const silentMs = this.#queues.size === 0 ? 0 : performance.now() - this.#lastSignMs;
    if (silentMs <= this.#settings.stallTimeoutMs) return { ok: true, reason: "ok" };
    return { ok: false, reason: `The engine has not finished a step for ${Math.round(silentMs / 1000)} s` };
  }

  generate(request: GenerateRequest): Updates {
    const { id } = request;
    const queue = new UpdateQueue(() => this.#cancel(id, queue));
    if (this.#queues.has(id)) {
      queue.fail(new EngineError("engine_error", `A request with id "${id}" is running already`));
    } else if (this.#fault !== "") {
      queue.fail(new EngineError(this.#isClosed ? "shutting_down" : "engine_error", this.#fault));
    } else {
      if (this.#queues.size === 0) this.#lastSignMs = performance.now();
      this.#queues.set(id, queue);
      this.#post({ type: "submit", request });
    }
    return queue;
  }

  onStep(listener: (stats: EngineStats) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  limitMemory(memoryBytes: number): Promise<void> {
    this.#memoryBytes = memoryBytes;
    if (this.#worker === null) return Promise.resolve();
    const limited = Promise.withResolvers<void>();
    this.#onLimited.push(limited.resolve);
    this.#post({ type: "limit", memoryBytes });
    return limited.promise;
  }

  /** Ends all requests, frees the model and ends the worker. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#fault = "The server is shutting down";
    const worker = this.#worker;
    if (worker !== null) {
      const closed = Promise.withResolvers<void>();
      this.#onClosed = closed.resolve;
      // A worker that hangs in a native call cannot answer.
      const timer = setTimeout(closed.resolve, CLOSE_TIMEOUT_MS);
      this.#post({ type: "shutdown" });
      await closed.promise;
      clearTimeout(timer);
      worker.terminate();
      this.#worker = null;
    }
    this.#failAll(new EngineError("shutting_down", this.#fault));
    this.#onLoaded.reject(new EngineError("shutting_down", this.#fault));
  }

  #spawn(): void {
    const worker = new Worker(this.#settings.workerUrl.href, { type: "module", name: "rowlock-engine" });
    this.#worker = worker;
    const unpacker = new StepUnpacker();
    worker.onmessage = (event: MessageEvent<PackedMessage>) => this.#receive(unpacker.unpack(event.data));
    worker.onerror = (event) => {
      // Otherwise the main thread would fail too.
      event.preventDefault();
      if (this.#worker === worker) this.#bury(event.message);
    };
    worker.onmessageerror = () => this.#bury("A message of the engine could not be read");
    this.#numUnread = newMessageCount();
    this.#post({ type: "load", options: this.options, numUnread: this.#numUnread });
    if (this.#memoryBytes !== null) void this.limitMemory(this.#memoryBytes);
  }

  #post(message: ToEngine): void {
    Atomics.add(this.#numUnread, 0, 1);
    this.#worker?.postMessage(message);
  }

  #receive(message: FromEngine): void {
    this.#lastSignMs = performance.now();
    switch (message.type) {
      case "ready":
        this.#facts = message.facts;
        if (!this.#isClosed) this.#fault = "";
        return this.#onLoaded.resolve();
      case "step":
        this.#stats = message.stats;
        for (const update of message.updates) this.#deliver(update);
        for (const listener of this.#listeners) listener(message.stats);
        return;
      case "stats":
        this.#stats = message.stats;
        return;
      case "limited":
        return this.#onLimited.shift()?.();
      case "failed":
        for (const id of message.ids) this.#take(id)?.fail(new EngineError(message.code, message.message));
        return;
      case "fatal":
        return this.#bury(message.message);
      case "closed":
        return this.#onClosed?.();
    }
  }

  #deliver(update: RowUpdate): void {
    const queue = update.finishReason === null ? this.#queues.get(update.id) : this.#take(update.id);
    queue?.push(update);
  }

  #take(id: string): UpdateQueue | undefined {
    const queue = this.#queues.get(id);
    this.#queues.delete(id);
    return queue;
  }

  #cancel(id: string, queue: UpdateQueue): void {
    if (this.#queues.get(id) !== queue) return;
    this.#queues.delete(id);
    this.#post({ type: "cancel", id });
  }

  #failAll(error: EngineError): void {
    const queues = [...this.#queues.values()];
    this.#queues.clear();
    for (const queue of queues) queue.fail(error);
  }

  /** The worker is dead: ends its requests and starts another one, unless it never came up or dies again and again. */
  #bury(reason: string): void {
    this.#worker?.terminate();
    this.#worker = null;
    this.#onClosed?.();
    for (const resolve of this.#onLimited.splice(0)) resolve();
    this.#stats = { ...this.#stats, rowsActive: 0, rowsWaiting: 0, stepRows: 0 };
    const wasLoaded = this.#facts !== null;
    if (!this.#isClosed) this.#fault = wasLoaded ? `The engine stopped: ${reason}` : reason;
    this.#failAll(new EngineError("engine_error", this.#fault));
    if (!wasLoaded) return this.#onLoaded.reject(new EngineError("engine_error", reason));
    const nowMs = performance.now();
    this.#deathsMs.push(nowMs);
    const numRecent = this.#deathsMs.filter((deathMs) => nowMs - deathMs <= this.#settings.restartWindowMs).length;
    if (this.#isClosed || numRecent > this.#settings.maxRestarts) return;
    this.#fault += "; it is being started again";
    this.#spawn();
  }
}

function newMessageCount(): MessageCount {
  return new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
}
