/** The native library inside a compiled program: written once to a folder of the user's own, checked by content at every start. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { FolderSafetyError, makePrivateFolder } from "./private_folder.ts";
import { LibraryError, libraryFileName } from "./library.ts";

/** A file inside the program. */
export interface BundledFile {
  readonly name: string;
  readonly bytes: number;
  /** Lower-case hexadecimal. */
  readonly sha256: string;
}

export interface LibraryBundle {
  /** Folder inside the program. */
  readonly folder: string;
  /** The library, and what it looks for beside itself. */
  readonly files: readonly BundledFile[];
}

const READ_ONLY = 0o400;
const WRITABLE_BY_OTHERS = 0o022;
/** Unpacked libraries of other builds that are kept: one of them may be running, and opens its library again when its engine is restarted. */
const NUM_KEPT = 3;

/**
 * Path of the library, outside the program: `<cache>/native/bundle-<key>/`, reused when what lies there is what the program brings.
 * Opened from inside the program, Deno would write it to a predictable name in the temporary folder, where another user can wait for it.
 * @throws {LibraryError} when the folder is not safe or cannot be written.
 */
export async function unpackLibrary(bundle: LibraryBundle, cache: string): Promise<string> {
  const native = join(cache, "native");
  try {
    const folder = await makePrivateFolder(join(native, `bundle-${keyOf(bundle)}`));
    await withLock(join(folder, "lock"), async () => {
      for (const file of bundle.files) {
        const target = join(folder, file.name);
        if (!await isIntact(target, file)) await unpackFile(join(bundle.folder, file.name), target, file);
      }
    });
    const now = new Date();
    await Deno.utime(folder, now, now);
    await removeOldBundles(native);
    return join(folder, libraryFileName());
  } catch (error) {
    if (error instanceof LibraryError) throw error;
    if (error instanceof FolderSafetyError) {
      throw new LibraryError(
        `The native library is not unpacked, because ${error.message}; set ROWLOCK_CACHE to a folder that only you can write`,
      );
    }
    const advice = "set ROWLOCK_CACHE to a folder that can be written";
    throw new LibraryError(`The native library cannot be unpacked below ${native}: ${(error as Error).message}; ${advice}`, {
      cause: error,
    });
  }
}

/** Equal for equal files. */
function keyOf({ files }: LibraryBundle): string {
  const hash = createHash("sha256");
  for (const { name, sha256 } of files) hash.update(`${name} ${sha256}\n`);
  return hash.digest("hex").slice(0, 16);
}

/** Whether `path` is exactly this file, this user's, and nobody else's to write. */
async function isIntact(path: string, { bytes, sha256 }: BundledFile): Promise<boolean> {
  try {
    const info = await Deno.lstat(path);
    if (!info.isFile || info.size !== bytes || info.uid !== Deno.uid() || ((info.mode ?? 0) & WRITABLE_BY_OTHERS) !== 0) return false;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
  return createHash("sha256").update(await Deno.readFile(path)).digest("hex") === sha256;
}

async function unpackFile(source: string, target: string, { name, sha256 }: BundledFile): Promise<void> {
  const content = await Deno.readFile(source);
  const found = createHash("sha256").update(content).digest("hex");
  if (found !== sha256) throw new LibraryError(`The program file is damaged: ${name} in it has SHA-256 ${found}, expected ${sha256}`);
  const part = `${target}.part`;
  await removeIfThere(part);
  using file = await Deno.open(part, { createNew: true, write: true, mode: 0o600 });
  for (let written = 0; written < content.length;) written += await file.write(content.subarray(written));
  await file.sync();
  await Deno.chmod(part, READ_ONLY);
  await Deno.rename(part, target);
}

async function removeOldBundles(native: string): Promise<void> {
  const bundles: { readonly path: string; readonly usedMs: number }[] = [];
  for await (const entry of Deno.readDir(native)) {
    if (!entry.isDirectory || !/^bundle-[0-9a-f]{16}$/.test(entry.name)) continue;
    const path = join(native, entry.name);
    bundles.push({ path, usedMs: (await Deno.stat(path)).mtime?.getTime() ?? 0 });
  }
  bundles.sort((a, b) => b.usedMs - a.usedMs);
  for (const { path } of bundles.slice(NUM_KEPT)) await Deno.remove(path, { recursive: true });
}

/** Two programs that start at once must not write the same file. */
async function withLock(path: string, body: () => Promise<void>): Promise<void> {
  using file = await Deno.open(path, { create: true, write: true, mode: 0o600 });
  await file.lock(true);
  try {
    await body();
  } finally {
    await file.unlock();
  }
}

async function removeIfThere(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
