import { BackendError } from "./backend.ts";
import type { EngineErrorCode } from "./messages.ts";

/** A request that is gone, and why. */
export interface Failure {
  readonly id: string;
  readonly code: EngineErrorCode;
  readonly message: string;
}

/** How an exception is told to the requests that it hit. */
export function failureOf(error: unknown): Omit<Failure, "id"> {
  const code = error instanceof BackendError && error.isOutOfMemory ? "out_of_memory" : "engine_error";
  return { code, message: error instanceof Error ? error.message : String(error) };
}
