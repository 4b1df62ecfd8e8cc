/** Pages and folders for tests of the disk. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { PageImage } from "../../../src/engine/backend.ts";
import { PageFolder } from "../../../src/engine/disk/page_folder.ts";
import { PageSpace } from "../../../src/engine/disk/page_space.ts";

/** Bytes of a page's file before the page. */
export const HEADER_BYTES = 160;

/** A SHA-256 in hexadecimal. */
export function digest(seed: number): string {
  return createHash("sha256").update(`${seed}`).digest("hex");
}

export function image(numBytes: number, seed = 1, parts: Partial<PageImage> = {}): PageImage {
  const bytes = Uint8Array.from({ length: numBytes }, (_, i) => i * seed + 3 * i * i);
  return { hasState: true, hasHistory: false, numTokens: 64, bytes, numModelBytes: numBytes, ...parts };
}

/** An image as numbers, to compare. */
export function spelled({ bytes, ...rest }: PageImage): unknown {
  return { ...rest, bytes: [...bytes] };
}

export async function withFolder(body: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await body(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

export function open(folder: string, maxBytes = 1e9, model = digest(1)): PageFolder {
  return new PageFolder(new PageSpace(folder, maxBytes, () => Promise.resolve(1e12)), model);
}

export function pathOf({ space, model }: PageFolder, key: string): string {
  return join(space.folder, model, `${key}.page`);
}

/** Every file below the folder, with its bytes. */
export async function files(folder: string): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) {
      for (const [inner, bytes] of await files(path)) found.set(inner, bytes);
      continue;
    }
    // A page that is being written may have got its name meanwhile.
    const info = await Deno.stat(path).catch(() => null);
    if (info !== null) found.set(path, info.size);
  }
  return found;
}

export async function heldBytes(folder: string): Promise<number> {
  return [...(await files(folder)).values()].reduce((sum, bytes) => sum + bytes, 0);
}
