/** Finds and opens the native library. Opening has no effect before `NativeLibrary.open` is called: an import never throws. */
import { join } from "node:path";
import { ABI_VERSION, SYMBOLS } from "./symbols.ts";
import { NativeError } from "./native_error.ts";

/** The library is missing, is not a library, or is of another version. */
export class LibraryError extends Error {
  override name = "LibraryError";
}

/** What the search looks at: environment and file system, so that tests can bring their own. */
export interface LibrarySearch {
  readonly env: (name: string) => string | undefined;
  readonly os: string;
  /** Names of the folders in `folder`, newest first; empty when there is no such folder. */
  readonly foldersNewestFirst: (folder: string) => readonly string[];
}

const HOW_TO_BUILD = 'run "deno task setup", which finds or builds it, or name one with ROWLOCK_LIBRARY';

/**
 * Paths where the library may lie, best first: `ROWLOCK_LIBRARY` alone when it is set, else the builds that `scripts/build_ffi.ts` left in the
 * cache (`native/shim-<key>/`), newest first.
 */
export function libraryCandidates(search: LibrarySearch = SYSTEM_SEARCH): string[] {
  const named = search.env("ROWLOCK_LIBRARY");
  if (named) return [named];
  const root = cacheRoot(search);
  if (root === null) return [];
  const native = join(root, "native");
  const fileName = libraryFileName(search.os);
  return search.foldersNewestFirst(native).filter((name) => name.startsWith("shim-")).map((name) => join(native, name, fileName));
}

/**
 * The path of the library to open: `explicit` when given, else the first candidate that exists.
 * @throws {LibraryError} when there is none; the message says what to run.
 */
export function findLibrary(explicit?: string): string {
  const candidates = explicit ? [explicit] : libraryCandidates();
  for (const path of candidates) {
    if (isFile(path)) return path;
  }
  const where = candidates.length === 0 ? "the cache holds no build of it" : `looked at ${candidates.join(", ")}`;
  throw new LibraryError(`Rowlock's native library was not found (${where}): ${HOW_TO_BUILD}`);
}

/** The file name of the library on this system. */
export function libraryFileName(os: string = Deno.build.os): string {
  if (os === "darwin") return "librowlock.dylib";
  return os === "windows" ? "rowlock.dll" : "librowlock.so";
}

type Symbols = Deno.DynamicLibrary<typeof SYMBOLS>["symbols"];

/** The opened library: its symbols, and the one place where a status becomes an error. */
export class NativeLibrary {
  readonly #library: Deno.DynamicLibrary<typeof SYMBOLS>;
  readonly symbols: Symbols;

  private constructor(readonly path: string, library: Deno.DynamicLibrary<typeof SYMBOLS>) {
    this.#library = library;
    this.symbols = library.symbols;
  }

  /**
   * Opens the library at `path`.
   * @throws {LibraryError} when it cannot be opened or its ABI version is another one.
   */
  static open(path: string): NativeLibrary {
    const library = openLibrary(path);
    const found = library.symbols.rl_abi_version();
    if (found !== ABI_VERSION) {
      library.close();
      throw new LibraryError(`The native library "${path}" has ABI version ${found}, this Rowlock needs ${ABI_VERSION}: ${HOW_TO_BUILD}`);
    }
    return new NativeLibrary(path, library);
  }

  /** @throws {NativeError} when `status` is not RL_OK. */
  check(call: string, status: number): void {
    if (status !== 0) throw new NativeError(call, status, readText(this.symbols.rl_last_error));
  }

  /** Versions, device and compiler of the build: `abi`, `mlx`, `mlxc`, `device`, `isa`, `blas`, `kernels`, `compiler`. */
  buildInfo(): Record<string, string> {
    const lines = readText(this.symbols.rl_build_info).split("\n").filter((line) => line.includes("="));
    return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]));
  }

  /** MLX's memory in bytes. */
  memory(): NativeMemory {
    this.check("rl_memory", this.symbols.rl_memory(this.#memory));
    const [active, peak, cached, cacheLimit] = this.#memory;
    return { activeBytes: Number(active), peakBytes: Number(peak), cachedBytes: Number(cached), cacheLimitBytes: Number(cacheLimit) };
  }
  readonly #memory = new BigUint64Array(4);

  /** Bytes that the control groups of this process still allow; Infinity without a limit. */
  cgroupMemory(): number {
    const out = new BigUint64Array(1);
    this.check("rl_cgroup_memory", this.symbols.rl_cgroup_memory(out));
    const [left = 0n] = out;
    return left === 2n ** 64n - 1n ? Infinity : Number(left);
  }

  /** Limits MLX's cache of freed buffers. */
  limitBufferCache(bytes: number): void {
    this.check("rl_memory_limit", this.symbols.rl_memory_limit(BigInt(bytes)));
  }

  /** Process-wide: a row's logits are the same bits whatever shares its steps and however its prompt is cut. Refused on a GPU. */
  setBatchInvariant(isOn: boolean): void {
    this.check("rl_batch_invariant", this.symbols.rl_batch_invariant(Number(isOn)));
  }

  /** The draw's words for tokens 0 … count - 1. */
  randomWords(seed: bigint, position: number, count: number): Uint32Array {
    const words = new Uint32Array(count);
    this.check("rl_random_words", this.symbols.rl_random_words(seed, position, words, count));
    return words;
  }

  /** Unloads the library; models, caches and outputs must be closed before. */
  close(): void {
    this.#library.close();
  }
}

export interface NativeMemory {
  readonly activeBytes: number;
  readonly peakBytes: number;
  /** Freed buffers that MLX keeps for the next allocation. */
  readonly cachedBytes: number;
  readonly cacheLimitBytes: number;
}

function openLibrary(path: string): Deno.DynamicLibrary<typeof SYMBOLS> {
  try {
    return Deno.dlopen(path, SYMBOLS);
  } catch (error) {
    // A missing permission is the user's to grant; its own text says how.
    if (error instanceof Deno.errors.NotCapable) throw error;
    // The library says which instructions it uses, and the system's loader compares that with the processor.
    if (/CPU ISA level/.test((error as Error).message)) {
      throw new LibraryError(
        `This processor is too old for "${path}" (${(error as Error).message}); a build from source suits any processor`,
      );
    }
    throw new LibraryError(`Cannot open the native library "${path}": ${(error as Error).message}: ${HOW_TO_BUILD}`, { cause: error });
  }
}

/** Reads a text that is written as `f(buffer, capacity) → full length`. */
function readText(write: (text: Uint8Array<ArrayBuffer>, capacity: number) => number): string {
  let text = new Uint8Array(1024);
  let length = write(text, text.length);
  if (length >= text.length) {
    text = new Uint8Array(length + 1);
    length = Math.min(write(text, text.length), length);
  }
  return new TextDecoder().decode(text.subarray(0, Math.max(0, length)));
}

function cacheRoot(search: LibrarySearch): string | null {
  const own = search.env("ROWLOCK_CACHE");
  if (own) return own;
  const xdg = search.env("XDG_CACHE_HOME");
  if (xdg) return join(xdg, "rowlock");
  const home = search.env("HOME") ?? search.env("USERPROFILE");
  return home ? join(home, ".cache", "rowlock") : null;
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

const SYSTEM_SEARCH: LibrarySearch = {
  env: (name) => Deno.permissions.querySync({ name: "env", variable: name }).state === "granted" ? Deno.env.get(name) : undefined,
  os: Deno.build.os,
  foldersNewestFirst(folder): string[] {
    try {
      const folders = [...Deno.readDirSync(folder)].filter((entry) => entry.isDirectory);
      const changedMs = (name: string): number => Deno.statSync(join(folder, name)).mtime?.getTime() ?? 0;
      return folders.map(({ name }) => ({ name, ms: changedMs(name) })).sort((a, b) => b.ms - a.ms).map(({ name }) => name);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  },
};
