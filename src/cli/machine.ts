/** What there is to compute on. */
import { NativeLibrary } from "../native/library.ts";

export interface Machine {
  /** Of the whole machine, and no more than the control groups of this process allow. */
  readonly freeBytes: number;
  /** Models will run on a GPU. */
  readonly isGpu: boolean;
}

/** Asks the native library, which the engine's thread opens again. @throws {LibraryError} when it cannot be opened. */
export function lookAtMachine(libraryPath: string): Machine {
  const library = NativeLibrary.open(libraryPath);
  try {
    const freeBytes = Math.min(Deno.systemMemoryInfo().available, library.cgroupMemory());
    return { freeBytes, isGpu: library.buildInfo()["device"] !== "cpu" };
  } finally {
    library.close();
  }
}
