/** MLX and mlx-c as static libraries, built once per compiler and flags and kept in the cache. */
import { join } from "node:path";
import type { Progress } from "../../src/hub/progress.ts";
import { build, type CmakeTree, configure, install } from "./cmake.ts";
import { fetchMlxSources, MLX_C_VERSION, type MlxSources } from "./mlx_sources.ts";
import { buildKey, exists, nativeFolder, removeAll } from "./native_paths.ts";
import { ensurePrerequisites } from "./prerequisites.ts";
import type { Toolchain } from "./toolchain.ts";

/** Where CMake finds mlx-c. */
export interface MlxInstall {
  /** Changes with everything that changes the libraries. */
  readonly key: string;
  readonly prefix: string;
}

/** Where Homebrew and `make install` put things. */
const SYSTEM_PREFIXES = ["/opt/homebrew", "/usr/local"];
const INCLUDE_FOLDERS = ["/usr/include", "/usr/local/include", "/opt/homebrew/include"];

/**
 * What MLX is or will be here, found out without running anything slow.
 * @param isPortable for a library that other machines take whole: an installed MLX is a shared library, which they may not have.
 */
export async function locateMlx(toolchain: Toolchain, isPortable = false): Promise<MlxInstall> {
  const installed = Deno.build.os === "darwin" && !isPortable ? await findInstalledMlx() : null;
  if (installed !== null) return installed;
  const key = buildKey([MLX_C_VERSION, Deno.build.target, toolchain.compiler ?? "", ...compileFlags(toolchain)]);
  return { key, prefix: join(nativeFolder(), `mlx-${key}`) };
}

/** Builds MLX into its prefix unless it is there. The caller holds the build lock. */
export async function ensureMlx(mlx: MlxInstall, toolchain: Toolchain, progress: Progress): Promise<void> {
  if (await exists(mlx.prefix)) return;
  await ensurePrerequisites(progress);
  const work = join(nativeFolder(), `build-mlx-${mlx.key}`);
  progress.note(`Building MLX and mlx-c ${MLX_C_VERSION} (about 5 minutes on 2 cores, once)`);
  const startedMs = performance.now();
  const sources = await fetchMlxSources(join(work, "sources"), progress);
  const tree: CmakeTree = {
    source: sources.mlxC,
    build: join(work, "tree"),
    flags: await configureFlags(sources, toolchain, work, mlx.prefix),
    label: "MLX",
  };
  await buildTree(tree, progress);
  const staged = join(work, "prefix");
  await removeAll(staged);
  await install(tree, staged);
  await Deno.rename(staged, mlx.prefix);
  await removeAll(work);
  progress.note(`MLX is built (${Math.round((performance.now() - startedMs) / 1000)} s)`);
}

/** Goes on where an interrupted build stopped. A tree that cannot go on, because what stopped it left a cut file, is built anew. */
async function buildTree(tree: CmakeTree, progress: Progress): Promise<void> {
  const isResumed = await exists(tree.build);
  try {
    await configure(tree, progress);
    await build(tree, progress);
  } catch (error) {
    if (!isResumed) throw error;
    progress.note("An interrupted build cannot go on; starting anew");
    await removeAll(tree.build);
    await configure(tree, progress);
    await build(tree, progress);
  }
}

function compileFlags(toolchain: Toolchain): string[] {
  const flags = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DCMAKE_POSITION_INDEPENDENT_CODE=ON",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DMLX_C_BUILD_EXAMPLES=OFF",
  ];
  if (toolchain.isa !== "") flags.push(`-DCMAKE_C_FLAGS=-march=${toolchain.isa}`, `-DCMAKE_CXX_FLAGS=-march=${toolchain.isa}`);
  // Not the reference BLAS, which CMake would take as well: it is ten times slower.
  if (Deno.build.os === "linux") flags.push("-DMLX_BUILD_METAL=OFF", "-DUSE_SYSTEM_FMT=ON", "-DBLA_VENDOR=OpenBLAS");
  return flags;
}

async function configureFlags(sources: MlxSources, toolchain: Toolchain, work: string, prefix: string): Promise<string[]> {
  const flags = [...compileFlags(toolchain), `-DCMAKE_INSTALL_PREFIX=${prefix}`, ...sources.cmakeFlags];
  const json = await linkSystemJson(join(work, "json"));
  return json === null ? flags : [...flags, `-DFETCHCONTENT_SOURCE_DIR_JSON=${json}`];
}

/** MLX looks for `single_include/nlohmann` in a source tree; the system's headers, linked under that name, are one. */
async function linkSystemJson(folder: string): Promise<string | null> {
  for (const include of INCLUDE_FOLDERS) {
    const headers = join(include, "nlohmann");
    if (!await exists(headers)) continue;
    const link = join(folder, "single_include", "nlohmann");
    await removeAll(folder);
    await Deno.mkdir(join(folder, "single_include"), { recursive: true });
    await Deno.symlink(headers, link);
    return folder;
  }
  return null;
}

async function findInstalledMlx(): Promise<MlxInstall | null> {
  for (const prefix of SYSTEM_PREFIXES) {
    const versionFile = join(prefix, "share", "cmake", "MLXC", "MLXCConfigVersion.cmake");
    if (!await exists(versionFile)) continue;
    return { key: buildKey([prefix, await Deno.readTextFile(versionFile)]), prefix };
  }
  return null;
}
