/** The engine as the server sees it. `EngineClient` is the real one (a worker); tests may inject faults with another. */
import type { EngineErrorCode, EngineFacts, EngineStats, GenerateRequest, RowUpdate } from "./messages.ts";

export class EngineError extends Error {
  override name = "EngineError";
  constructor(readonly code: EngineErrorCode, message: string) {
    super(message);
  }
}

/** Who is told what comes, at once and without a promise for each token. */
export interface UpdateListener {
  onUpdate(update: RowUpdate): void;
  /** Nothing comes after it. */
  onFailure(error: EngineError): void;
}

/** The updates of one request up to the one that carries a finish reason: for a loop, or for a listener. */
export interface Updates extends AsyncIterableIterator<RowUpdate> {
  /** In place of a loop: calls `listener` for what has come, in a microtask, and from then on for whatever comes. */
  listen(listener: UpdateListener): void;
  /** Cancels the request if it still runs: its row is free at the next step. Nothing more is handed out. */
  return(): Promise<IteratorResult<RowUpdate>>;
}

export interface Engine {
  readonly facts: EngineFacts;
  readonly stats: EngineStats;
  /** "ok", or why requests cannot be served. */
  readonly health: { readonly ok: boolean; readonly reason: string };
  /**
   * Runs the request. Leaving a loop over its updates early (break, return) cancels it.
   * @throws {EngineError} out of the loop when the request fails, before or after the first update.
   */
  generate(request: GenerateRequest): Updates;
  /** Called after every step with fresh stats, for histograms. Returns the unsubscriber. */
  onStep(listener: (stats: EngineStats) => void): () => void;
  /** The engine may take so much memory from now on. Resolves when it holds no more, or is gone. */
  limitMemory(memoryBytes: number): Promise<void>;
  close(): Promise<void>;
}
