/** Names and keys of what is built, all below `<cache>/native`. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { cacheFolder } from "../../src/hub/cache_folder.ts";

export function nativeFolder(): string {
  return join(cacheFolder(), "native");
}

/** Short key of what went into a build: parts that are equal, in the same order, give the same key. */
export function buildKey(parts: readonly string[]): string {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(`${part.length}:${part}`);
  return hash.digest("hex").slice(0, 16);
}

/** Key of all files below `folder`, by name and content. */
export async function folderKey(folder: string): Promise<string> {
  const parts: string[] = [];
  for (const path of (await listFiles(folder)).sort()) parts.push(path, await Deno.readTextFile(join(folder, path)));
  return buildKey(parts);
}

export async function exists(path: string): Promise<boolean> {
  try {
    await Deno.stat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

export async function removeAll(path: string): Promise<void> {
  if (await exists(path)) await Deno.remove(path, { recursive: true });
}

async function listFiles(folder: string, prefix = ""): Promise<string[]> {
  const files: string[] = [];
  for await (const entry of Deno.readDir(join(folder, prefix))) {
    const path = join(prefix, entry.name);
    if (entry.isDirectory) files.push(...await listFiles(folder, path));
    else if (entry.isFile) files.push(path);
  }
  return files;
}
