/** Whether a download fits. */
import { dirname } from "node:path";
import { statfs } from "node:fs/promises";
import { HubError } from "./hub_error.ts";

/** Left free: a full disk makes trouble for everybody. */
const SPARE_BYTES = 256 * 2 ** 20;

/** Bytes that may be written below `folder`, which need not exist yet; Infinity when this program may not know. */
export async function freeBytes(folder: string): Promise<number> {
  for (let path = folder;; path = dirname(path)) {
    try {
      const { bavail, bsize } = await statfs(path);
      return bavail * bsize;
    } catch (error) {
      if (error instanceof Deno.errors.NotCapable) return Infinity;
      if ((error as { code?: string }).code !== "ENOENT" || dirname(path) === path) throw error;
    }
  }
}

/** @throws {HubError} with the figures when `numBytes` do not fit. */
export function checkSpace(what: string, folder: string, numBytes: number, numFree: number): void {
  if (numBytes === 0 || numBytes + SPARE_BYTES <= numFree) return;
  const [needed, free, spare] = [numBytes, numFree, SPARE_BYTES].map((bytes) => `${(bytes / 1e9).toFixed(2)} GB`);
  throw new HubError(`${what} needs ${needed} in ${folder}, where ${free} are free and ${spare} are to stay free`);
}
