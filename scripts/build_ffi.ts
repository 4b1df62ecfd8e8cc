/** Finds or builds the native library, once; all of it is kept in the cache folder, outside the checkout. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { withFileLock } from "../src/hub/file_lock.ts";
import { type Progress, SILENT } from "../src/hub/progress.ts";
import { TerminalProgress } from "../src/cli/terminal_progress.ts";
import { ensureMlx, locateMlx } from "./native/build_mlx.ts";
import { buildShimTree, locateShim, publishShim, type ShimSource, touchShim } from "./native/build_shim.ts";
import { exists, nativeFolder } from "./native/native_paths.ts";
import { ensurePrerequisites } from "./native/prerequisites.ts";
import { findToolchain, type Toolchain } from "./native/toolchain.ts";

const FFI_FOLDER = fileURLToPath(new URL("../ffi", import.meta.url));

export interface LibraryOptions {
  /** A library that other machines can take whole: linked statically, for any processor that is not too old. */
  readonly isPortable?: boolean;
}

/**
 * The path of the native library: the one that `ROWLOCK_LIBRARY` names, else the one built for this state of `ffi/`, built first when missing.
 * @throws {Error} with a line that tells what to do, when it cannot be had.
 */
export async function ensureLibrary(progress: Progress = SILENT, options: LibraryOptions = {}): Promise<string> {
  const named = Deno.env.get("ROWLOCK_LIBRARY");
  if (named) return await checkNamed(named);
  const source = await shimSource(progress, options);
  const target = await locateShim(source);
  if (!await exists(target)) await underBuildLock(progress, () => buildLibrary(source, target, progress));
  await touchShim(target);
  return target;
}

/**
 * Builds the native tests of this checkout, what changed only.
 * @param extraFlags further flags for CMake, such as a sanitizer's; they give a build tree of their own.
 * @returns the build tree, for ctest.
 */
export async function ensureNativeTests(progress: Progress, extraFlags: readonly string[] = []): Promise<string> {
  const source = await shimSource(progress, {});
  return await underBuildLock(progress, async () => {
    await ensureMlx(source.mlx, source.toolchain, progress);
    return await buildShimTree(source, progress, extraFlags);
  });
}

async function buildLibrary(source: ShimSource, target: string, progress: Progress): Promise<void> {
  // Whoever held the lock before may have built it.
  if (await exists(target)) return;
  await ensureMlx(source.mlx, source.toolchain, progress);
  const tree = await buildShimTree(source, progress);
  await publishShim(tree, source.mlx, target);
  progress.note(`The native library is ${target}`);
}

async function underBuildLock<T>(progress: Progress, body: () => Promise<T>): Promise<T> {
  const onWait = (): void => progress.note("Another process is building the native library; waiting for it");
  return await withFileLock(join(nativeFolder(), "build.lock"), onWait, body);
}

async function shimSource(progress: Progress, { isPortable = false }: LibraryOptions): Promise<ShimSource> {
  if (Deno.build.os === "windows") {
    throw new Error("The native library is built on Linux and macOS; on Windows, use the Linux subsystem (WSL)");
  }
  const toolchain = await toolchainOrInstall(progress, isPortable);
  return { folder: FFI_FOLDER, toolchain, mlx: await locateMlx(toolchain, isPortable) };
}

/** The compiler's version is part of every key, so a missing compiler is installed, or named, before anything else. */
async function toolchainOrInstall(progress: Progress, isPortable: boolean): Promise<Toolchain> {
  const toolchain = await findToolchain(isPortable);
  if (toolchain.compiler !== null) return toolchain;
  await ensurePrerequisites(progress);
  return await findToolchain(isPortable);
}

async function checkNamed(path: string): Promise<string> {
  if (!await exists(path)) throw new Error(`ROWLOCK_LIBRARY names ${path}, which does not exist`);
  return path;
}

if (import.meta.main) {
  try {
    console.log(await ensureLibrary(new TerminalProgress()));
  } catch (error) {
    console.error(`build_ffi: ${error instanceof Error ? error.message : error}`);
    Deno.exit(1);
  }
}
