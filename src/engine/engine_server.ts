import type { ModelBackend } from "./backend.ts";
import { EngineCore } from "./engine_core.ts";
import type { Failure } from "./failure.ts";
import type { EngineOptions, FromEngine, ToEngine } from "./messages.ts";
import { makeSpeculation } from "./make_speculation.ts";
import { Turns } from "./turns.ts";

/** An engine that has been without requests for this long gives the cache's memory back. */
const IDLE_RELEASE_MS = 10_000;

/** The worker's end of the message channel. */
export interface EnginePort {
  post(message: FromEngine): void;
  /** Ends the worker. */
  close(): void;
}

/** The worker's message loop. Between any two steps all messages are read, so that requests join and leave at the next step; without work it sleeps. */
export class EngineServer {
  #core: EngineCore | null = null;
  #idleTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #turns = new Turns();

  constructor(readonly port: EnginePort, readonly loadBackend: (options: EngineOptions) => ModelBackend) {}

  handle(message: ToEngine): void {
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
      case "shutdown":
        return this.#shutdown();
    }
  }

  #load(options: EngineOptions): void {
    const startMs = performance.now();
    const backend = this.loadBackend(options);
    const speculation = makeSpeculation(options, backend);
    this.#core = new EngineCore(backend, options, undefined, speculation);
    const facts = { ...backend.facts, draftKinds: speculation.kinds, loadMs: performance.now() - startMs };
    this.port.post({ type: "ready", facts });
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
      const report = core.step();
      // The next step's turn is asked for first: its messages arrive while this step's are written.
      if (core.hasWork) this.#wake();
      this.#postFailures(report.failures);
      this.port.post({ type: "step", updates: report.updates, stats: core.stats() });
      if (!core.hasWork) this.#sleep(core);
    } catch (error) {
      this.#die(error);
    }
  }

  #sleep(core: EngineCore): void {
    this.#idleTimer = setTimeout(() => {
      try {
        if (core.releaseMemory()) this.port.post({ type: "step", updates: [], stats: core.stats() });
      } catch (error) {
        this.#die(error);
      }
    }, IDLE_RELEASE_MS);
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
    if (this.#core !== null) this.#postFailures(this.#core.failAll("shutting_down", "The server is shutting down"));
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
    core?.backend.close();
  }
}
