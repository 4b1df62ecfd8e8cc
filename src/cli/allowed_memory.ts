/** How much memory models may take: what `--memory` says, else a share of what is free. */
import { bodyMemoryBytes } from "../server/body_budget.ts";
import type { ServeSettings } from "./arguments.ts";
import { sizeText } from "./size_text.ts";

/** The rest is for whatever else runs here, and for what cannot be counted. */
const DEFAULT_SHARE = 0.8;
/** The program itself, as measured: runtime, library, vocabulary, and the freed buffers that MLX keeps for the next step (128 MiB). */
export const PROGRAM_BYTES = 320 * 2 ** 20;

/** The program when it serves: requests whose bodies are being read come on top. */
export function servingBytes({ maxBody }: Pick<ServeSettings, "maxBody">): number {
  return PROGRAM_BYTES + bodyMemoryBytes(maxBody * 2 ** 20);
}

export interface AllowedMemory {
  /** For all models together. */
  readonly modelBytes: number;
  /** For the log. */
  readonly text: string;
}

/**
 * @param memory gigabytes; null: nobody has said.
 * @param freeBytes of the machine, and as far as the control groups of this process allow.
 * @param programBytes what the program takes beside models.
 * @throws {Error} when nothing is left for a model.
 */
export function allowedMemory(memory: number | null, freeBytes: number, programBytes = PROGRAM_BYTES): AllowedMemory {
  const total = memory === null ? DEFAULT_SHARE * freeBytes : memory * 1e9;
  const source = memory === null ? `${100 * DEFAULT_SHARE} % of the ${sizeText(freeBytes)} that are free` : "by --memory";
  if (total <= programBytes) {
    const found = memory === null ? `${sizeText(freeBytes)} of memory are free` : `--memory allows ${sizeText(total)}`;
    throw new Error(`${found}; the program itself takes about ${sizeText(programBytes)}, and a model comes on top`);
  }
  const warning = total > freeBytes ? `, more than the ${sizeText(freeBytes)} that are free` : "";
  return {
    modelBytes: total - programBytes,
    text: `memory: ${sizeText(total)} (${source}${warning}), ${sizeText(programBytes)} of it for the program`,
  };
}
