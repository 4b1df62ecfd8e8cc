/** Rowlock's own native library, `ffi/`, over an MLX that is there. */
import { basename, dirname, join } from "node:path";
import type { Progress } from "../../src/hub/progress.ts";
import type { MlxInstall } from "./build_mlx.ts";
import { build, type CmakeTree, configure } from "./cmake.ts";
import { libraryFileName } from "../../src/native/library.ts";
import { buildKey, exists, folderKey, nativeFolder, removeAll } from "./native_paths.ts";
import { ensurePrerequisites } from "./prerequisites.ts";
import type { Toolchain } from "./toolchain.ts";

/** Libraries of other states of `ffi/` that are kept: branches are switched back and forth. */
const NUM_KEPT = 4;

export interface ShimSource {
  /** The checkout's `ffi` folder. */
  readonly folder: string;
  readonly mlx: MlxInstall;
  readonly toolchain: Toolchain;
}

/** Path of the library for this state of `ffi/` and this MLX, whether it is there or not. */
export async function locateShim(source: ShimSource): Promise<string> {
  const key = buildKey([source.mlx.key, await folderKey(source.folder), ...shimFlags(source)]);
  return join(nativeFolder(), `shim-${key}`, libraryFileName());
}

/**
 * Compiles `ffi/` with its test programs, in a tree that belongs to this checkout and is kept, so that the next build compiles only what changed.
 * The caller holds the build lock.
 * @returns the build tree, for ctest.
 */
export async function buildShimTree(source: ShimSource, progress: Progress, extraFlags: readonly string[] = []): Promise<string> {
  await ensurePrerequisites(progress);
  const work = join(nativeFolder(), `build-shim-${buildKey([source.folder, source.mlx.key, ...extraFlags])}`);
  const tree: CmakeTree = {
    source: source.folder,
    build: join(work, "tree"),
    flags: [...shimFlags(source), `-DCMAKE_PREFIX_PATH=${source.mlx.prefix}`, ...extraFlags],
    label: "the native library",
  };
  await configure(tree, progress);
  await build(tree, progress);
  return tree.build;
}

/** Copies the built library to its place. */
export async function publishShim(tree: string, mlx: MlxInstall, target: string): Promise<void> {
  const folder = dirname(target);
  const staged = join(nativeFolder(), `part-${basename(folder)}`);
  await removeAll(staged);
  await Deno.mkdir(staged, { recursive: true });
  await Deno.copyFile(join(tree, libraryFileName()), join(staged, libraryFileName()));
  // On macOS, MLX looks for its GPU kernels beside the library that it is part of.
  const kernels = join(mlx.prefix, "lib", "mlx.metallib");
  if (await exists(kernels)) await Deno.copyFile(kernels, join(staged, "mlx.metallib"));
  await removeAll(folder);
  await Deno.rename(staged, folder);
  await removeOldShims();
}

/** Marks a library as the one in use, so that `main.ts` takes it when none is named, and so that it is kept. */
export async function touchShim(path: string): Promise<void> {
  const now = new Date();
  await Deno.utime(dirname(path), now, now);
}

function shimFlags(source: ShimSource): string[] {
  return ["-DCMAKE_BUILD_TYPE=Release", `-DROWLOCK_ISA=${source.toolchain.isa}`];
}

async function removeOldShims(): Promise<void> {
  const shims: { folder: string; usedMs: number }[] = [];
  for await (const entry of Deno.readDir(nativeFolder())) {
    const folder = join(nativeFolder(), entry.name);
    const library = join(folder, libraryFileName());
    if (!/^shim-[0-9a-f]+$/.test(entry.name) || !await exists(library)) continue;
    shims.push({ folder, usedMs: (await Deno.stat(folder)).mtime?.getTime() ?? 0 });
  }
  shims.sort((a, b) => b.usedMs - a.usedMs);
  for (const { folder } of shims.slice(NUM_KEPT)) await removeAll(folder);
}
