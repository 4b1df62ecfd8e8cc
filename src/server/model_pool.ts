/** The models that this server has: which are loaded, who uses them, and which have to go when another one needs their memory. */
import { type Engine, EngineError } from "../engine/engine.ts";
import type { EngineStats } from "../engine/messages.ts";
import { modelNotFound } from "./errors.ts";
import { addStats, PooledModel } from "./pooled_model.ts";
import { TaskQueue } from "./task_queue.ts";

export interface PoolLimits {
  /** Bytes that loaded models may hold together: weights, KV, prefix pages and what a step takes. @default Infinity */
  readonly memoryBytes?: number;
  /** A model that nobody has used for this long is unloaded. @default Infinity */
  readonly idleUnloadMs?: number;
  /** Requests that may wait for one model to be loaded. @default 272 */
  readonly maxWaiting?: number;
}

/** The use of a loaded model. As long as it is held, the model stays. */
export interface EngineLease {
  readonly engine: Engine;
  /** To be called once the request has ended; further calls do nothing. */
  release(): void;
}

const DEFAULTS: Required<PoolLimits> = { memoryBytes: Infinity, idleUnloadMs: Infinity, maxWaiting: 272 };

/** The pool is what the metrics see in place of one engine. */
export class ModelPool implements Pick<Engine, "health" | "stats" | "onStep"> {
  readonly #limits: Required<PoolLimits>;
  /** Loads and unloads, one at a time and in the order in which they were asked for: nobody is overtaken for ever. */
  readonly #changes = new TaskQueue();
  readonly #listeners = new Set<(stats: EngineStats) => void>();
  readonly #stopped = Promise.withResolvers<never>();
  #isClosed = false;
  #closing: Promise<void> | null = null;
  #isDraining = false;

  /** @param models at least one; the first is meant by "default". Their ids are all different. */
  constructor(readonly models: readonly PooledModel[], limits: PoolLimits = {}) {
    this.#limits = { ...DEFAULTS, ...limits };
    this.#stopped.promise.catch(() => {});
    const ids = models.map(({ id }) => id);
    const twice = ids.find((id, i) => ids.indexOf(id) !== i);
    if (models.length === 0) throw new RangeError("A server needs at least 1 model; found 0");
    if (twice !== undefined) throw new RangeError(`Two models have the id ${JSON.stringify(twice)}; ids have to differ`);
    for (const model of models) model.onStep = (stats) => this.#listeners.forEach((listener) => listener(stats));
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  get health(): { readonly ok: boolean; readonly reason: string } {
    const sick = this.models.map(({ health }) => health).filter(({ ok }) => !ok);
    // One model that has failed is no reason to take all others from their clients.
    return sick.length < this.models.length ? { ok: true, reason: "ok" } : sick[0]!;
  }

  get stats(): EngineStats {
    return this.models.map(({ stats }) => stats).reduce(addStats);
  }

  get facts(): { readonly weightBytes: number } {
    return { weightBytes: this.models.reduce((sum, { weightBytes }) => sum + weightBytes, 0) };
  }

  get numLiveSequences(): number {
    return this.models.reduce((sum, { admission }) => sum + admission.numLive, 0);
  }

  onStep(listener: (stats: EngineStats) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Accepts a model's id, another name that it was given, "default", or nothing. Anything else, a path included, is not looked for anywhere.
   * @throws {ApiError} 404 `model_not_found`.
   */
  find(name: string | null | undefined): PooledModel {
    const [first] = this.models;
    // Clients that let people leave the model's name open send an empty one.
    if (name === undefined || name === null || name === "") return first!;
    const called = this.models.find(({ id }) => id === name) ?? this.models.find((model) => model.isCalled(name));
    const found = called ?? (name === "default" ? first : undefined);
    if (found === undefined) throw modelNotFound(name, this.models.map(({ id }) => id));
    return found;
  }

  /**
   * The use of a model, which is loaded first when it is not; others are unloaded for it when memory is short, once their requests have ended.
   * @param givenUp rejects when nobody waits any more.
   * @throws {EngineError} when it cannot be loaded, does not fit, or the server is shutting down; and what `givenUp` rejects with.
   */
  async acquire(model: PooledModel, givenUp: Promise<never> = this.#stopped.promise): Promise<EngineLease> {
    if (model.isReady && !this.#isClosed) return this.#lease(model);
    if (this.#isClosed || this.#isDraining) throw new EngineError("shutting_down", "The server is shutting down");
    if (model.numWaiting >= this.#limits.maxWaiting) {
      throw new EngineError("queue_full", `${model.numWaiting} requests wait for ${model.id} to be loaded; try again later`);
    }
    model.numWaiting++;
    const lease = this.#changes.run(() => this.#loadAndLease(model));
    try {
      return await Promise.race([lease, this.#stopped.promise, givenUp]);
    } catch (error) {
      // Whoever has stopped to wait will not give it back.
      lease.then(({ release }) => release(), () => {});
      throw error;
    } finally {
      model.numWaiting--;
    }
  }

  /** No model is loaded any more; what runs goes on. */
  drain(): void {
    this.#isDraining = true;
    for (const { admission } of this.models) admission.drain();
  }

  /** Ends the wait of everybody who waits for a model. */
  stopWaiting(error: Error): void {
    this.#stopped.reject(error);
  }

  /** Unloads everything. */
  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    this.#isClosed = true;
    this.stopWaiting(new EngineError("shutting_down", "The server is shutting down"));
    for (const model of this.models) model.abandon();
    for (const { served } of this.models) served.longPrompts?.close();
    await this.#changes.run(async () => void await Promise.all(this.models.map((model) => model.unload())));
  }

  #lease(model: PooledModel): EngineLease {
    const { engine, release } = model.lease();
    return {
      engine,
      release: () => {
        release();
        if (model.numLeases === 0) this.#unloadLater(model);
      },
    };
  }

  async #loadAndLease(model: PooledModel): Promise<EngineLease> {
    if (this.#isClosed) throw new EngineError("shutting_down", "The server is shutting down");
    if (!model.isReady) await this.#load(model);
    return this.#lease(model);
  }

  async #load(model: PooledModel): Promise<void> {
    const { memoryBytes } = this.#limits;
    if ((model.measuredBytes ?? 0) > memoryBytes) throw tooLarge(model, memoryBytes);
    await this.#makeRoom(model, model.expectedBytes);
    await this.#shareOut(model.expectedBytes);
    try {
      await model.load();
      // What it really needs is known now.
      await this.#makeRoom(model, model.neededBytes);
      if (model.neededBytes <= memoryBytes) return;
      await model.unload();
      throw tooLarge(model, memoryBytes);
    } finally {
      await this.#shareOut();
    }
  }

  /** Unloads others, the least recently used first and those that nobody uses before all, until `numBytes` fit beside what is left. */
  async #makeRoom(model: PooledModel, numBytes: number): Promise<void> {
    while (true) {
      const others = this.models.filter((other) => other !== model && other.isLoaded);
      const numNeeded = others.reduce((sum, { neededBytes }) => sum + neededBytes, 0);
      const candidates = others.filter(({ canUnload }) => canUnload);
      candidates.sort((a, b) => Number(a.numLeases > 0) - Number(b.numLeases > 0) || a.lastUsedMs - b.lastUsedMs);
      if (numNeeded + numBytes <= this.#limits.memoryBytes || candidates.length === 0) return;
      await candidates[0]!.unload();
    }
  }

  /** Every loaded model may take what it has to have, and an equal part of what is left beside `numReserved` bytes. */
  async #shareOut(numReserved = 0): Promise<void> {
    const { memoryBytes } = this.#limits;
    const loaded = this.models.filter(({ isLoaded }) => isLoaded);
    if (memoryBytes === Infinity || loaded.length === 0) return;
    const numNeeded = loaded.reduce((sum, { neededBytes }) => sum + neededBytes, numReserved);
    const share = Math.max(0, memoryBytes - numNeeded) / loaded.length;
    await Promise.all(loaded.map((model) => model.limitMemory(model.neededBytes + share)));
  }

  #unloadLater(model: PooledModel): void {
    const { idleUnloadMs } = this.#limits;
    if (idleUnloadMs === Infinity || !model.canUnload || this.#isClosed) return;
    model.startIdleTimer(idleUnloadMs, () => {
      // A request may have come while another model was being loaded.
      void this.#changes.run(async () => {
        if (model.numLeases > 0 || performance.now() - model.lastUsedMs < idleUnloadMs) return;
        await model.unload();
        await this.#shareOut();
      });
    });
  }
}

function tooLarge(model: PooledModel, memoryBytes: number): EngineError {
  const [needed, limit] = [model.measuredBytes ?? 0, memoryBytes].map((bytes) => `${(bytes / 1e9).toFixed(2)} GB`);
  return new EngineError("out_of_memory", `The model ${model.id} takes ${needed} and --memory allows ${limit}`);
}
