/** One model of the pool, loaded or not. */
import type { DiskFigures } from "../engine/disk/page_disk.ts";
import type { Engine } from "../engine/engine.ts";
import { type DraftFailures, type EngineStats, NO_STATS } from "../engine/messages.ts";
import { NO_PREFIXES, type PrefixFigures } from "../engine/prefix_cache.ts";
import type { LoadedModel } from "../models/loaded_model.ts";
import type { Admission } from "./admission.ts";
import type { ServedModel } from "./served_model.ts";

/** A model as the operator names it. */
export interface PoolMember {
  readonly model: LoadedModel;
  /** Other names that requests may call it by. @default none */
  readonly aliases?: readonly string[];
  /** Runs already. */
  readonly engine?: Engine;
  /** Loads the model; without it the model stays loaded for good. */
  readonly startEngine?: () => Promise<Engine>;
  /** Bytes that it will take as far as anybody can tell before it is loaded. @default those of its tensors in the files */
  readonly expectedBytes?: number;
}

export type ModelStatus = "loaded" | "loading" | "unloading" | "unloaded" | "failed";

export class PooledModel {
  /** Called after every step of whichever engine the model has. */
  onStep: (stats: EngineStats) => void = () => {};
  numWaiting = 0;
  numLeases = 0;
  lastUsedMs = performance.now();
  /** Bytes that it needed when it was loaded; null as long as it never was. */
  measuredBytes: number | null = null;
  #engine: Engine | null = null;
  #status: ModelStatus = "unloaded";
  /** Why it could not be loaded the last time. */
  #failure = "";
  /** What its former engines have counted. */
  #past = NO_STATS;
  #stopListening: () => void = () => {};
  #idleTimer: ReturnType<typeof setTimeout> | undefined;
  #onIdle: (() => void) | null = null;
  #isAbandoned = false;
  /** Of its last engine: memory may hold less of a request than the context. */
  #maxEngineTokens = Infinity;

  constructor(readonly member: PoolMember, readonly served: ServedModel, readonly admission: Admission) {
    if (member.engine === undefined && member.startEngine === undefined) throw new TypeError(`Nothing can load ${served.loaded.id}`);
    if (member.engine !== undefined) this.#attach(member.engine);
  }

  get id(): string {
    return this.served.loaded.id;
  }

  /** Whether a request that names this model means it. */
  isCalled(name: string): boolean {
    return name === this.id || (this.member.aliases?.includes(name) ?? false);
  }

  /** Tokens of one request, prompt and answer, at most. What memory allows is known once the model has been loaded. */
  get maxRowTokens(): number {
    return Math.min(this.served.maxContext, this.#maxEngineTokens);
  }

  get status(): ModelStatus {
    return this.#status;
  }

  get isLoaded(): boolean {
    return this.#engine !== null;
  }

  /** Loaded, and not about to go: requests may use it at once. */
  get isReady(): boolean {
    return this.#status === "loaded";
  }

  get canUnload(): boolean {
    return this.member.startEngine !== undefined;
  }

  get weightBytes(): number {
    return this.#engine?.facts.weightBytes ?? 0;
  }

  /** What it has to have: weights, and one row as long as rows may be. Whatever else is there, it shares with others. */
  get neededBytes(): number {
    const facts = this.#engine?.facts;
    return facts === undefined ? 0 : facts.leastBytes ?? facts.weightBytes;
  }

  get expectedBytes(): number {
    if (this.measuredBytes !== null) return this.measuredBytes;
    return this.member.expectedBytes ?? this.served.loaded.spec.tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** A model that is not loaded is well: the next request loads it. One that could not be loaded says why until it is. */
  get health(): { readonly ok: boolean; readonly reason: string } {
    if (this.#engine !== null) return this.#engine.health;
    return this.#status === "failed" ? { ok: false, reason: this.#failure } : { ok: true, reason: "ok" };
  }

  /** Totals over all its engines. */
  get stats(): EngineStats {
    return this.#engine === null ? this.#past : addStats(this.#past, this.#engine.stats);
  }

  lease(): { readonly engine: Engine; readonly release: () => void } {
    const engine = this.#engine;
    if (engine === null) throw new TypeError(`${this.id} is not loaded`);
    clearTimeout(this.#idleTimer);
    this.numLeases++;
    let isHeld = true;
    const release = (): void => {
      if (!isHeld) return;
      isHeld = false;
      this.numLeases--;
      this.lastUsedMs = performance.now();
      if (this.numLeases === 0) this.#onIdle?.();
    };
    return { engine, release };
  }

  /** It may take so much from now on. Resolves when it holds no more. */
  async limitMemory(memoryBytes: number): Promise<void> {
    await this.#engine?.limitMemory(memoryBytes);
  }

  /** Calls `onIdle` after this time, unless the model is used before. */
  startIdleTimer(timeoutMs: number, onIdle: () => void): void {
    clearTimeout(this.#idleTimer);
    this.#idleTimer = setTimeout(onIdle, timeoutMs);
    Deno.unrefTimer(this.#idleTimer);
  }

  /** @throws {EngineError} when it cannot be loaded. */
  async load(): Promise<void> {
    this.#status = "loading";
    try {
      this.#attach(await this.member.startEngine!());
      this.measuredBytes = this.neededBytes;
    } catch (error) {
      this.#status = "failed";
      this.#failure = error instanceof Error ? error.message : String(error);
      throw error;
    }
  }

  /** Waits for the requests that use it, then frees it. From now on new ones wait for it to be loaded again. */
  async unload(): Promise<void> {
    const engine = this.#engine;
    if (engine === null) return;
    clearTimeout(this.#idleTimer);
    this.#status = "unloading";
    if (this.numLeases > 0 && !this.#isAbandoned) await new Promise<void>((resolve) => this.#onIdle = resolve);
    this.#onIdle = null;
    this.#detach();
    this.#past = withoutGauges(addStats(this.#past, engine.stats));
    this.#engine = null;
    await engine.close();
    this.#status = "unloaded";
  }

  /** Hears no more of its engine, and waits for nobody who uses it. */
  abandon(): void {
    this.#isAbandoned = true;
    this.#detach();
    this.#onIdle?.();
  }

  #detach(): void {
    clearTimeout(this.#idleTimer);
    this.#stopListening();
    this.#stopListening = (): void => {};
  }

  #attach(engine: Engine): void {
    this.#engine = engine;
    this.#maxEngineTokens = engine.facts.maxRowTokens ?? Infinity;
    this.#status = "loaded";
    this.#stopListening = engine.onStep((stats) => this.onStep(stats));
  }
}

/** What is left of an engine that is gone. */
function withoutGauges(stats: EngineStats): EngineStats {
  const prefix = { ...(stats.prefix ?? NO_PREFIXES), pages: 0, bytes: 0 };
  return { ...stats, rowsActive: 0, rowsWaiting: 0, memoryLimitBytes: 0, kvBytes: 0, mlxActiveBytes: 0, prefix };
}

/** Counts and bytes of two engines together; MLX counts for the whole process, so there the larger one is it. */
export function addStats(a: EngineStats, b: EngineStats): EngineStats {
  return {
    steps: a.steps + b.steps,
    rowsActive: a.rowsActive + b.rowsActive,
    rowsWaiting: a.rowsWaiting + b.rowsWaiting,
    promptTokens: a.promptTokens + b.promptTokens,
    generatedTokens: a.generatedTokens + b.generatedTokens,
    stepRows: a.stepRows + b.stepRows,
    stepMs: Math.max(a.stepMs, b.stepMs),
    preemptions: a.preemptions + b.preemptions,
    memoryLimitBytes: a.memoryLimitBytes + b.memoryLimitBytes,
    kvBytes: a.kvBytes + b.kvBytes,
    mlxActiveBytes: Math.max(a.mlxActiveBytes, b.mlxActiveBytes),
    mlxPeakBytes: Math.max(a.mlxPeakBytes, b.mlxPeakBytes),
    prefix: addFigures(a.prefix ?? NO_PREFIXES, b.prefix ?? NO_PREFIXES),
    ...addFailures(a.draftFailures, b.draftFailures),
  };
}

function addFailures(a: DraftFailures | undefined, b: DraftFailures | undefined): Pick<EngineStats, "draftFailures"> {
  const last = b ?? a;
  return last === undefined ? {} : { draftFailures: { count: (a?.count ?? 0) + (b?.count ?? 0), message: last.message } };
}

function addFigures(a: PrefixFigures, b: PrefixFigures): PrefixFigures {
  return {
    queries: a.queries + b.queries,
    queryTokens: a.queryTokens + b.queryTokens,
    hitTokens: a.hitTokens + b.hitTokens,
    pages: a.pages + b.pages,
    bytes: a.bytes + b.bytes,
    evictions: a.evictions + b.evictions,
    ...addDisks(a.disk, b.disk),
  };
}

/** Of all engines of a server the folder is one: whoever has seen more in it is right. */
function addDisks(a: DiskFigures | undefined, b: DiskFigures | undefined): Pick<PrefixFigures, "disk"> {
  if (a === undefined || b === undefined) return a === undefined && b === undefined ? {} : { disk: a ?? b! };
  return {
    disk: {
      hitTokens: a.hitTokens + b.hitTokens,
      readBytes: a.readBytes + b.readBytes,
      writtenBytes: a.writtenBytes + b.writtenBytes,
      numDropped: a.numDropped + b.numDropped,
      numDamaged: a.numDamaged + b.numDamaged,
      heldBytes: Math.max(a.heldBytes, b.heldBytes),
    },
  };
}
