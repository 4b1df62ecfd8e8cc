/** The engine as the server sees it. `EngineClient` is the real one (a worker); tests may inject faults with another. */
import type { EngineErrorCode, EngineFacts, EngineStats, GenerateRequest, RowUpdate } from "./messages.ts";

export class EngineError extends Error {
  override name = "EngineError";
  constructor(readonly code: EngineErrorCode, message: string) {
    super(message);
  }
}

export interface Engine {
  readonly facts: EngineFacts;
  readonly stats: EngineStats;
  /** "ok", or why requests cannot be served. */
  readonly health: { readonly ok: boolean; readonly reason: string };
  /**
   * Yields the request's updates until the one that carries a finish reason. Leaving the loop early (break, return) cancels the request and
   * frees its row at the next step.
   * @throws {EngineError} when the request fails, before or after the first update.
   */
  generate(request: GenerateRequest): AsyncIterableIterator<RowUpdate>;
  /** Called after every step with fresh stats, for histograms. Returns the unsubscriber. */
  onStep(listener: (stats: EngineStats) => void): () => void;
  /** The engine may take so much memory from now on. Resolves when it holds no more, or is gone. */
  limitMemory(memoryBytes: number): Promise<void>;
  close(): Promise<void>;
}
