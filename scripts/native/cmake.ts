/** CMake with progress: configure, build, and errors that show the last lines and where the whole log is. */
import { dirname, join } from "node:path";
import { CommandError, type CommandOptions, tryCommand } from "../../src/hub/command.ts";
import type { Progress } from "../../src/hub/progress.ts";
import { canRun } from "./prerequisites.ts";

export interface CmakeTree {
  /** Folder of CMakeLists.txt. */
  readonly source: string;
  readonly build: string;
  readonly flags: readonly string[];
  /** What is built, for the progress line. */
  readonly label: string;
}

/** Lines of a log that are shown with an error. */
const ERROR_LINES = 25;
const GIB = 2 ** 30;
/** A file of MLX takes up to about this much while it compiles. */
const BYTES_PER_JOB = 1.5 * GIB;

export async function configure(tree: CmakeTree, progress: Progress): Promise<void> {
  await Deno.mkdir(tree.build, { recursive: true });
  progress.advance(`configuring ${tree.label}`, 0, 1, "steps");
  // A tree keeps the generator that it was made with; another one would be refused.
  const generator = await canRun("ninja", "--version") ? "Ninja" : "Unix Makefiles";
  await runLogged(["cmake", "-G", generator, "-S", tree.source, "-B", tree.build, ...tree.flags], logPath(tree, "configure"));
}

/** Builds all targets, with as many jobs as cores and memory allow. */
export async function build(tree: CmakeTree, progress: Progress): Promise<void> {
  const onLine = (line: string): void => {
    const step = parseBuildStep(line);
    if (step !== null && step.total > 1) progress.advance(`building ${tree.label}`, step.done, step.total, "steps");
  };
  await runLogged(["cmake", "--build", tree.build, "--parallel", `${numJobs()}`], logPath(tree, "build"), { onLine });
}

export async function install(tree: CmakeTree, prefix: string): Promise<void> {
  await runLogged(["cmake", "--install", tree.build, "--prefix", prefix], logPath(tree, "install"));
}

/** How far a build is, from a line of ninja (`[12/115] …`) or make (`[ 10%] …`); null for other lines. */
export function parseBuildStep(line: string): { readonly done: number; readonly total: number } | null {
  const ninja = /^\[(\d+)\/(\d+)\]/.exec(line);
  if (ninja) return { done: Number(ninja[1]), total: Number(ninja[2]) };
  const make = /^\[\s*(\d+)%\]/.exec(line);
  return make ? { done: Number(make[1]), total: 100 } : null;
}

function numJobs(): number {
  const byMemory = Math.floor(Deno.systemMemoryInfo().total / BYTES_PER_JOB);
  return Math.max(1, Math.min(navigator.hardwareConcurrency, byMemory));
}

function logPath(tree: CmakeTree, step: string): string {
  return join(dirname(tree.build), `${step}.log`);
}

async function runLogged(command: readonly string[], log: string, options: CommandOptions = {}): Promise<void> {
  const lines: string[] = [];
  const onLine = (line: string): void => {
    lines.push(line);
    options.onLine?.(line);
  };
  const { code } = await tryCommand(command, { ...options, onLine });
  await Deno.writeTextFile(log, lines.join("\n") + "\n");
  if (code === 0) return;
  const shown = lines.filter((line) => !/^\[\d+\/\d+\] Building/.test(line)).slice(-ERROR_LINES);
  throw new CommandError(
    `${command.slice(0, 2).join(" ")} failed with exit code ${code}; the whole log is ${log}. Its end:\n${shown.join("\n")}`,
  );
}
