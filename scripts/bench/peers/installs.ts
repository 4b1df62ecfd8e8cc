/** The other servers' packages, in folders of their own below `<cache>/peers`; neither the user's Python nor their Node gets anything. */
import { join } from "node:path";
import { cacheFolder } from "../../../src/hub/cache_folder.ts";
import { type CommandResult, tryCommand } from "../../../src/hub/command.ts";
import { withFileLock } from "../../../src/hub/file_lock.ts";
import type { Progress } from "../../../src/hub/progress.ts";
import { exists, removeAll } from "../../native/native_paths.ts";
import { writeFloat32Folder } from "./float32_folder.ts";

export const VERSIONS = { mlxLm: "0.32.2", mlxVlm: "0.7.10", nodeLlamaCpp: "3.22.1" } as const;

const INSTALL_TIMEOUT_MS = 600_000;
/** Changes when the folders that are written change. */
const FORMAT = 1;

/** A folder that is there, or why it cannot be had. */
export type Installed = { readonly folder: string } | { readonly missing: string };

function peersFolder(): string {
  return join(cacheFolder(), "peers");
}

/** A virtual environment with both of MLX's Python servers, and MLX for the CPU where there is no Metal. */
export async function installPython(progress: Progress): Promise<Installed> {
  const backend = Deno.build.os === "darwin" ? "mlx" : "mlx[cpu]";
  const packages = [`mlx-lm==${VERSIONS.mlxLm}`, `mlx-vlm==${VERSIONS.mlxVlm}`, backend];
  const name = `python-${VERSIONS.mlxLm}-${VERSIONS.mlxVlm}`;
  return await once(name, progress, (folder) => [
    // Links to the interpreter stand in the scripts, so the environment is made where it stays.
    ["python3", "-m", "venv", folder],
    [join(folder, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", ...packages],
  ]);
}

/** llama.cpp with its bindings for Node, as prebuilt by its packages. */
export async function installLlamaCpp(progress: Progress): Promise<Installed> {
  return await once(`node-llama-cpp-${VERSIONS.nodeLlamaCpp}`, progress, async (folder) => {
    await Deno.mkdir(folder, { recursive: true });
    await Deno.writeTextFile(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
    const packages = [`node-llama-cpp@${VERSIONS.nodeLlamaCpp}`];
    return [["npm", "install", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", "--silent", ...packages]];
  });
}

/** The model as float32 safetensors, for servers that do not read its GGUF file. @throws {Error} when it cannot be written so. */
export async function exportModel(ggufPath: string, progress: Progress): Promise<string> {
  const { size, mtime } = await Deno.stat(ggufPath);
  const folder = join(peersFolder(), `model-${FORMAT}-${size}-${mtime?.getTime() ?? 0}`);
  await withFileLock(`${folder}.lock`, () => progress.note("Another process writes the model's folder"), async () => {
    if (await exists(folder)) return;
    progress.note(`Writing the model as float32 into ${folder}`);
    await removeAll(`${folder}.part`);
    await writeFloat32Folder(ggufPath, `${folder}.part`);
    await Deno.rename(`${folder}.part`, folder);
  });
  return folder;
}

/** Runs the commands that `prepare` gives, once; a file marks a folder as whole. */
async function once(name: string, progress: Progress, prepare: (folder: string) => string[][] | Promise<string[][]>): Promise<Installed> {
  const folder = join(peersFolder(), name);
  const mark = join(folder, "installed");
  const install = async (): Promise<string | null> => {
    if (await exists(mark)) return null;
    progress.note(`Installing ${name} into ${folder}`);
    await removeAll(folder);
    for (const command of await prepare(folder)) {
      const result = await tryCommand(command, { timeoutMs: INSTALL_TIMEOUT_MS });
      if (result.code !== 0) return describeFault(command, result);
    }
    await Deno.writeTextFile(mark, "");
    return null;
  };
  const missing = await withFileLock(`${folder}.lock`, () => progress.note(`Another process installs ${name}`), install);
  return missing === null ? { folder } : { missing };
}

function describeFault([program = "", ...args]: readonly string[], { code, tail }: CommandResult): string {
  return `${program} ${args.slice(0, 3).join(" ")} … ended with exit code ${code}: ${tail.slice(-2).join(" ")}`;
}
