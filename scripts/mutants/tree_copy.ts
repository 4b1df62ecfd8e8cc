/** A copy of the checkout that may be broken on purpose. It is kept, so that the next run builds only what changed. */
import { dirname, join } from "node:path";

/** What the tests need of the checkout. */
const COPIED = ["src", "ffi", "scripts", "tests", "main.ts", "deno.json", "deno.lock", "README.md"];

/**
 * Makes `target` equal to the checkout. Only files that differ are written: a build system goes by their times. What an interrupted run left
 * broken differs, so it is repaired.
 */
export async function syncTree(checkout: string, target: string): Promise<void> {
  const wanted = new Set<string>();
  for (const name of COPIED) for await (const path of filesBelow(checkout, name)) wanted.add(path);
  for (const path of wanted) await copyIfDifferent(join(checkout, path), join(target, path));
  for (const name of COPIED) {
    for await (const path of filesBelow(target, name)) if (!wanted.has(path)) await Deno.remove(join(target, path));
  }
}

/** Runs `body` while the file has `text`, then puts the old text back. */
export async function withText<T>(path: string, text: string, body: () => Promise<T>): Promise<T> {
  const saved = await Deno.readTextFile(path);
  await Deno.writeTextFile(path, text);
  try {
    return await body();
  } finally {
    await Deno.writeTextFile(path, saved);
  }
}

async function* filesBelow(root: string, path: string): AsyncGenerator<string> {
  const info = await statOrNull(join(root, path));
  if (info === null) return;
  if (info.isFile) yield path;
  if (!info.isDirectory) return;
  for await (const { name } of Deno.readDir(join(root, path))) yield* filesBelow(root, join(path, name));
}

async function copyIfDifferent(from: string, to: string): Promise<void> {
  const [wanted, found] = [await Deno.readFile(from), await statOrNull(to) === null ? null : await Deno.readFile(to)];
  if (found !== null && isEqual(wanted, found)) return;
  await Deno.mkdir(dirname(to), { recursive: true });
  await Deno.writeFile(to, wanted);
}

function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

async function statOrNull(path: string): Promise<Deno.FileInfo | null> {
  try {
    return await Deno.stat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}
