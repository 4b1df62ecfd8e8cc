/**
 * Makes the program that people download: `dist/rowlock-<os>-<arch>`, one file with the native library, the engine's worker and, with
 * `--with-model`, the default model inside.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import type { BuildFacts } from "../src/cli/bundle.ts";
import { TerminalProgress } from "../src/cli/terminal_progress.ts";
import { VERSION } from "../src/cli/version.ts";
import { tryCommand } from "../src/hub/command.ts";
import { DEFAULT_MODEL } from "../src/hub/default_model.ts";
import { VARIABLES } from "../src/hub/environment.ts";
import type { Progress } from "../src/hub/progress.ts";
import { ensureLibrary } from "./build_ffi.ts";
import { bundleLibrary, describeFile } from "./compile/bundle_library.ts";
import { denoCompile } from "./compile/deno_compile.ts";
import { removeAll } from "./native/native_paths.ts";
import { ensureModel } from "./setup.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** `src/cli/bundle.ts` reads it at the same place inside the program. */
const BUNDLE = join("dist", "bundle");

/** What any command may need; each gives up the rest when it starts. Nothing is ever asked for while it runs. */
const PERMISSIONS = [
  "--no-prompt",
  "--allow-read",
  "--allow-write",
  "--allow-net",
  "--allow-ffi",
  "--allow-run",
  "--allow-sys=systemMemoryInfo,statfs,uid,gid,cpus",
  `--allow-env=${VARIABLES.join(",")}`,
];

export interface CompileOptions {
  readonly isWithModel?: boolean;
}

export interface CompileResult {
  readonly path: string;
  readonly bytes: number;
  readonly isRelease: boolean;
}

/** @throws {Error} when the native library does not stand alone or Deno's compiler fails. */
export async function compile(options: CompileOptions, progress: Progress): Promise<CompileResult> {
  const bundle = join(ROOT, BUNDLE);
  await removeAll(bundle);
  await Deno.mkdir(bundle, { recursive: true });
  const library = await bundleLibrary(await ensureLibrary(progress, { isPortable: true }), bundle);
  const facts: BuildFacts = {
    version: VERSION,
    commit: await currentCommit(),
    target: Deno.build.target,
    library: library.info,
    minGlibc: library.minGlibc,
    libraryFiles: library.files,
    model: options.isWithModel ? await bundleModel(bundle, progress) : null,
  };
  await Deno.writeTextFile(join(bundle, "facts.json"), JSON.stringify(facts, null, 2));
  const path = join(ROOT, "dist", programName(options));
  const includes = [
    "--include",
    BUNDLE,
    "--include",
    join("src", "engine", "worker.ts"),
    "--include",
    join("src", "engine", "disk", "worker.ts"),
    "--include",
    join("src", "models", "prompt_worker.ts"),
  ];
  // Types are checked by `deno task check`.
  const { isRelease } = await denoCompile(
    ["--no-check", "--exclude-unused-npm", ...PERMISSIONS, ...includes, "--output", path, "main.ts"],
    progress,
  );
  await removeAll(bundle);
  return { path, bytes: (await Deno.stat(path)).size, isRelease };
}

/** `rowlock-linux-x86_64`, `rowlock-macos-aarch64-with-model` */
function programName({ isWithModel = false }: CompileOptions): string {
  const os = Deno.build.os === "darwin" ? "macos" : Deno.build.os;
  return `rowlock-${os}-${Deno.build.arch}${isWithModel ? "-with-model" : ""}`;
}

async function bundleModel(bundle: string, progress: Progress): Promise<BuildFacts["model"]> {
  await Deno.copyFile(await ensureModel(progress), join(bundle, DEFAULT_MODEL.fileName));
  return await describeFile(bundle, DEFAULT_MODEL.fileName);
}

async function currentCommit(): Promise<string> {
  const head = await tryCommand(["git", "rev-parse", "--short=12", "HEAD"], { cwd: ROOT });
  if (head.code !== 0) return "unknown";
  const changes = await tryCommand(["git", "status", "--porcelain"], { cwd: ROOT });
  return `${head.tail[0]}${changes.tail.length > 0 ? "+" : ""}`;
}

if (import.meta.main) {
  try {
    const { values } = parseArgs({ options: { "with-model": { type: "boolean", default: false } } });
    const { path, bytes, isRelease } = await compile({ isWithModel: values["with-model"] }, new TerminalProgress());
    console.log(`${path} (${(bytes / 1e6).toFixed(1)} MB)${isRelease ? "" : ", for tests only"}`);
  } catch (error) {
    console.error(`compile: ${error instanceof Error ? error.message : error}`);
    Deno.exit(1);
  }
}
