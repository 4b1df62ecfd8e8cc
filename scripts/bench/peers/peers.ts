/** The servers that are compared, ours first, and how each is started with the same weights. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { selfCommand } from "../../../src/cli/self_command.ts";
import type { Progress } from "../../../src/hub/progress.ts";
import { exists } from "../../native/native_paths.ts";
import { exportModel, type Installed, installLlamaCpp, installPython } from "./installs.ts";
import type { Launch } from "./server_process.ts";

export const PEER_NAMES = ["ours", "mlx-lm", "mlx-vlm", "llama.cpp"] as const;
export type PeerName = (typeof PEER_NAMES)[number];

export interface PeerSettings {
  readonly libraryPath: string;
  readonly modelPath: string;
  /** Requests that a server may have to compute together. */
  readonly maxRows: number;
  /** Tokens of the longest request. */
  readonly maxContext: number;
  readonly llamaThreads: number;
}

/** Sets up the servers that are named; those that cannot be had are said and left out. */
export async function preparePeers(names: readonly PeerName[], settings: PeerSettings, progress: Progress): Promise<Launch[]> {
  const launches: Launch[] = [];
  const python = names.some((name) => name.startsWith("mlx-")) ? await installPython(progress) : null;
  const folder = python !== null && "folder" in python ? await exportModel(settings.modelPath, progress) : "";
  for (const name of names) {
    const launch = await prepare(name, settings, { python, folder }, progress);
    if ("missing" in launch) progress.note(`${name} is left out: ${launch.missing}`);
    else launches.push(launch);
  }
  return launches;
}

interface PythonSetup {
  readonly python: Installed | null;
  /** The model as the Python servers read it. */
  readonly folder: string;
}

async function prepare(
  name: PeerName,
  settings: PeerSettings,
  setup: PythonSetup,
  progress: Progress,
): Promise<Launch | { readonly missing: string }> {
  switch (name) {
    case "ours":
      return ours(settings);
    case "mlx-lm":
    case "mlx-vlm":
      return await pythonServer(name, setup);
    case "llama.cpp":
      return llamaServer(await installLlamaCpp(progress), settings);
  }
}

function ours({ libraryPath, modelPath, maxRows }: PeerSettings): Launch {
  const command = (port: number): string[] => {
    const flags = ["--port", `${port}`, "--model", modelPath, "--max-batch", `${maxRows}`, "--log-level", "warn"];
    const { program, args } = selfCommand(["serve", ...flags]);
    return [program, ...args];
  };
  return { name: "ours", model: "default", command, env: { ROWLOCK_LIBRARY: libraryPath } };
}

async function pythonServer(name: "mlx-lm" | "mlx-vlm", { python, folder }: PythonSetup): Promise<Launch | { readonly missing: string }> {
  if (python === null || "missing" in python) return { missing: python?.missing ?? "nothing is installed" };
  const module = name === "mlx-lm" ? "mlx_lm" : "mlx_vlm";
  const program = join(python.folder, "bin", "python");
  return {
    name,
    model: name === "mlx-lm" ? "default_model" : folder,
    // The variable would hold OpenBLAS to another processor's kernels than those of the one at hand.
    command: (port) => [
      ...(Deno.build.os === "linux" ? ["env", "-u", "OPENBLAS_CORETYPE"] : []),
      program,
      "-m",
      module,
      "server",
      ...["--model", folder, "--host", "127.0.0.1", "--port", `${port}`],
    ],
    env: { HF_HUB_OFFLINE: "1", ...await fastBlas() },
  };
}

const OPENBLAS_PATHS = [
  "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0",
  "/usr/lib/aarch64-linux-gnu/openblas-pthread/libopenblas.so.0",
  "/usr/lib64/libopenblasp.so.0",
  "/usr/lib/libopenblas.so.0",
];

/**
 * MLX's wheels for Linux carry the reference BLAS, which is ten times slower than what our library is built with. Comparing servers, not
 * builds, needs the same one in both.
 * @throws {Error} when there is none: the figures would be about BLAS.
 */
async function fastBlas(): Promise<Record<string, string>> {
  if (Deno.build.os !== "linux") return {};
  for (const path of OPENBLAS_PATHS) if (await exists(path)) return { LD_PRELOAD: path };
  throw new Error(`No OpenBLAS for the Python servers; install libopenblas0-pthread. Looked for ${OPENBLAS_PATHS.join(", ")}`);
}

function llamaServer(installed: Installed, settings: PeerSettings): Launch | { readonly missing: string } {
  if ("missing" in installed) return installed;
  const script = fileURLToPath(new URL("./llama_server.mjs", import.meta.url));
  const { modelPath, maxRows, maxContext, llamaThreads } = settings;
  const command = (port: number): string[] => [
    "node",
    script,
    installed.folder,
    modelPath,
    ...[port, maxRows, maxContext, llamaThreads].map(String),
  ];
  return { name: "llama.cpp", model: "default", command, env: {} };
}
