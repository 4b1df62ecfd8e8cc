import type { ModelBackend } from "./backend.ts";
import { openPrefixDisk } from "./disk/disk_client.ts";
import type { PageDisk } from "./disk/page_disk.ts";
import { EngineCore } from "./engine_core.ts";
import type { Failure } from "./failure.ts";
import type { EngineOptions, FromEngine, MessageCount, ToEngine } from "./messages.ts";
import { makeSpeculation } from "./make_speculation.ts";
import { diskMemoryBytes, STALL_MS } from "./prefix_disk.ts";
import type { StepReport } from "./step_report.ts";
import { Turns } from "./turns.ts";

/** An engine that has been without requests for this long gives the cache's memory back. */
const IDLE_RELEASE_MS = 10_000;
/** An engine that is shut down writes pages to the disk for this long at most. Less than whoever shuts it down waits. */
const SETTLE_MS = 2_000;

/** The worker's end of the message channel. */
export interface EnginePort {
  post(message: FromEngine): void;
  /** Ends the worker. */
  close(): void;
}

/** The worker's message loop. Between any two steps all messages are read, so that requests join and leave at the next step; without work it sleeps. */
export class EngineServer {
  #core: EngineCore | null = null;
  #disk: PageDisk | null = null;
  /** What the disk takes of the engine's memory. */
  #diskBytes = 0;
  #isShuttingDown = false;
  #idleTimer: ReturnType<typeof setTimeout> | undefined;
  #numUnread: MessageCount | null = null;
  readonly #turns = new Turns();

  constructor(
    readonly port: EnginePort,
    readonly loadBackend: (options: EngineOptions) => ModelBackend,
    readonly openDisk: typeof openPrefixDisk = openPrefixDisk,
  ) {}

  handle(message: ToEngine): void {
    if (message.type === "load") this.#numUnread = message.numUnread ?? null;
    if (this.#numUnread !== null) Atomics.sub(this.#numUnread, 0, 1);
    try {
      this.#dispatch(message);
    } catch (error) {
      this.#die(error);
    }
  }

  #dispatch(message: ToEngine): void {
    switch (message.type) {
      case "load":
        return this.#load(message.options);
      case "submit":
        return this.#withCore((core) => this.#postFailures([core.submit(message.request)].filter((failure) => failure !== null)));
      case "cancel":
        return this.#withCore((core) => core.cancel(message.id));
      case "limit":
        this.#withCore((core) => this.#tell(core, core.limitMemory(this.#coreBytes(message.memoryBytes)), false));
        return this.port.post({ type: "limited" });
      case "shutdown":
        return this.#shutdown();
    }
  }

  #load(options: EngineOptions): void {
    const startMs = performance.now();
    const backend = this.loadBackend(options);
    // Kernels that compute other bits have pages of their own.
    this.#disk = this.openDisk(options, backend.facts.build ?? {});
    const speculation = makeSpeculation(options, backend);
    this.#diskBytes = this.#disk === null ? 0 : diskMemoryBytes(backend.facts);
    const { memoryBytes = Infinity } = options;
    this.#core = new EngineCore(backend, { ...options, memoryBytes: this.#coreBytes(memoryBytes) }, undefined, speculation, this.#disk);
    if (this.#disk !== null) this.#disk.onAnswer = (): void => this.#onDisk();
    const { maxRowTokens } = this.#core;
    const leastBytes = this.#core.leastBytes + this.#diskBytes;
    const facts = { ...backend.facts, draftKinds: speculation.kinds, maxRowTokens, leastBytes, loadMs: performance.now() - startMs };
    this.port.post({ type: "ready", facts });
  }

  #coreBytes(memoryBytes: number): number {
    return Math.max(0, memoryBytes - this.#diskBytes);
  }

  #withCore(act: (core: EngineCore) => void): void {
    if (this.#core === null) throw new TypeError("The engine got a request before a model was loaded");
    act(this.#core);
    if (this.#core.hasWork) this.#wake();
  }

  /** A step follows in the next turn, where one is pending at most. */
  #wake(): void {
    clearTimeout(this.#idleTimer);
    this.#turns.after(() => this.#step());
  }

  #step(): void {
    const core = this.#core;
    if (core === null) return;
    try {
      // Who has written meanwhile joins or leaves before the next forward starts.
      const report = core.step(this.#numUnread !== null && Atomics.load(this.#numUnread, 0) === 0);
      const isWaiting = core.isWaitingForDisk;
      // The next step's turn is asked for first: its messages arrive while this step's are written.
      if (core.hasWork && !isWaiting) this.#wake();
      // A forward that was made for nobody is no step, but somebody has left with it.
      this.#tell(core, report, report.numStepRows > 0);
      if (isWaiting) this.#idleTimer = setTimeout(() => this.#wake(), STALL_MS);
      else if (!core.hasWork) this.#sleep(core);
    } catch (error) {
      this.#die(error);
    }
  }

  /** The disk has answered: there may be a page for a row, and room for another one to be written. */
  #onDisk(): void {
    const core = this.#core;
    if (core === null) return;
    core.prefixes.writeBehind();
    if (core.hasWork) this.#wake();
    else if (core.prefixes.isSettled) {
      this.port.post({ type: "stats", stats: core.stats() });
      if (this.#isShuttingDown) this.#end();
    }
  }

  #sleep(core: EngineCore): void {
    this.#idleTimer = setTimeout(() => {
      try {
        if (core.releaseMemory()) this.port.post({ type: "stats", stats: core.stats() });
      } catch (error) {
        this.#die(error);
      }
    }, IDLE_RELEASE_MS);
  }

  /** @param isStep the message says that a step is over, whatever it has brought. */
  #tell(core: EngineCore, { failures, updates }: StepReport, isStep: boolean): void {
    this.#postFailures(failures);
    if (isStep || updates.length > 0) this.port.post({ type: "step", updates, stats: core.stats() });
    else this.port.post({ type: "stats", stats: core.stats() });
  }

  /** One message for all requests that failed for the same reason. */
  #postFailures(failures: readonly Failure[]): void {
    const byReason = Map.groupBy(failures, ({ code, message }) => `${code} ${message}`);
    for (const group of byReason.values()) {
      const [first] = group;
      if (first) this.port.post({ type: "failed", ids: group.map(({ id }) => id), code: first.code, message: first.message });
    }
  }

  #shutdown(): void {
    const core = this.#core;
    if (core === null) return this.#end();
    this.#isShuttingDown = true;
    this.#postFailures(core.failAll("shutting_down", "The server is shutting down"));
    core.prefixes.writeBehind();
    if (core.prefixes.isSettled) return this.#end();
    clearTimeout(this.#idleTimer);
    this.#idleTimer = setTimeout(() => this.#end(), SETTLE_MS);
  }

  #end(): void {
    this.#close();
    this.port.post({ type: "closed" });
    this.port.close();
  }

  /** Nothing is known to be right any more: tells so, frees what can be freed, and ends. */
  #die(error: unknown): void {
    this.port.post({ type: "fatal", message: error instanceof Error ? error.message : String(error) });
    try {
      this.#close();
    } finally {
      this.port.close();
    }
  }

  #close(): void {
    clearTimeout(this.#idleTimer);
    this.#turns.close();
    const core = this.#core;
    this.#core = null;
    this.#disk?.close();
    core?.close();
  }
}
