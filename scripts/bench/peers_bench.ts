/**
 * `deno task bench:peers`: this server and others with the same model, weights and BLAS on the same machine, in one run and one table. What the
 * loads are stands in `peers/loads.ts`.
 */
import os from "node:os";
import { parseArgs } from "node:util";
import { TerminalProgress } from "../../src/cli/terminal_progress.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { ensureLibrary } from "../build_ffi.ts";
import { runScript } from "../run_script.ts";
import { ensureModel } from "../setup.ts";
import { VERSIONS } from "./peers/installs.ts";
import { FULL, type Load, longestRequest, makeLoads, QUICK, type Sizes } from "./peers/loads.ts";
import { PEER_NAMES, type PeerName, preparePeers } from "./peers/peers.ts";
import { peersTable } from "./peers/peers_table.ts";
import { PromptMaker } from "./peers/prompts.ts";
import { runRounds, START } from "./peers/rounds.ts";

const HELP = `Usage: deno task bench:peers [flags]
  --only LIST       servers to measure, of ${PEER_NAMES.join(", ")} (default: all)
  --loads LIST      loads to run, by key: ${makeLoads(FULL).map(({ key }) => key).join(", ")} (default: all)
  --quick           smaller loads, one round, under 6 minutes
  --rounds N        rounds; the median counts (default: 3, with --quick 1)
  --llama-threads N threads of llama.cpp, which spin and crawl where others need a core of theirs (default: one less than there are)
  --minutes N       no round begins that would end later (default: 24, with --quick 5.5)
What has to be installed is installed before the clock starts.`;

/** Load average above which other programs disturb the figures of a machine with two cores. */
const MAX_LOAD = 2;
const LOAD_TIMEOUT_MS = 240_000;

interface Settings {
  readonly names: readonly PeerName[];
  readonly loadKeys: readonly string[] | null;
  readonly isQuick: boolean;
  readonly maxRounds: number;
  readonly budgetMs: number;
  readonly llamaThreads: number;
}

function parseSettings(args: string[]): Settings {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args,
    options: { only: text, loads: text, quick: { type: "boolean", default: false }, rounds: text, minutes: text, "llama-threads": text },
  });
  const isQuick = values.quick;
  const only = values.only?.split(",") ?? PEER_NAMES;
  const unknown = only.find((name) => !PEER_NAMES.some((known) => known === name));
  if (unknown !== undefined) throw new Error(`--only has "${unknown}", expected names of ${PEER_NAMES.join(", ")}`);
  return {
    names: PEER_NAMES.filter((name) => only.includes(name)),
    loadKeys: values.loads?.split(",") ?? null,
    isQuick,
    maxRounds: positive("--rounds", values.rounds ?? (isQuick ? "1" : "3")),
    budgetMs: 60_000 * positive("--minutes", values.minutes ?? (isQuick ? "5.5" : "24")),
    llamaThreads: positive("--llama-threads", values["llama-threads"] ?? `${Math.max(1, os.availableParallelism() - 1)}`),
  };
}

function positive(flag: string, text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new Error(`${flag} is "${text}", expected a number above 0`);
  return value;
}

function describeMachine(): string {
  const cpus = os.cpus();
  const gigabytes = (os.totalmem() / 2 ** 30).toFixed(0);
  return `${cpus[0]?.model.trim() ?? "unknown processor"}, ${cpus.length} threads, ${gigabytes} GiB, ${Deno.build.os} ${Deno.build.arch}`;
}

function chooseLoads({ loadKeys }: Settings, sizes: Sizes): Load[] {
  const all = makeLoads(sizes);
  const unknown = loadKeys?.find((key) => !all.some((load) => load.key === key));
  if (unknown !== undefined) throw new Error(`--loads has "${unknown}", expected keys of ${all.map(({ key }) => key).join(", ")}`);
  return all.filter(({ key }) => loadKeys?.includes(key) ?? true);
}

async function bench(settings: Settings): Promise<void> {
  const sizes = settings.isQuick ? QUICK : FULL;
  const loads = chooseLoads(settings, sizes);
  const progress = new TerminalProgress();
  const [libraryPath, modelPath] = [await ensureLibrary(progress), await ensureModel(progress)];
  const { tokenizer, chatTemplate } = loadModel(modelPath);
  if (tokenizer === null || chatTemplate === null) {
    throw new Error("The model has no tokenizer or no chat template, the benchmark needs both");
  }
  const maxRows = Math.max(...sizes.rows, sizes.numSharing);
  const launches = await preparePeers(settings.names, {
    libraryPath,
    modelPath,
    maxRows,
    maxContext: longestRequest(sizes),
    llamaThreads: settings.llamaThreads,
  }, progress);
  const loadBefore = Deno.loadavg()[0] ?? 0;
  const { results, numRounds } = await runRounds(
    launches,
    loads,
    new PromptMaker(tokenizer, chatTemplate),
    { maxRounds: settings.maxRounds, budgetMs: settings.budgetMs, loadTimeoutMs: LOAD_TIMEOUT_MS },
    progress,
  );
  const names = launches.map(({ name }) => name);
  console.log(
    `${describeMachine()}; SmolLM2-135M-Instruct, float32 on MLX, Q4_1 in llama.cpp; mlx-lm ${VERSIONS.mlxLm}, mlx-vlm ${VERSIONS.mlxVlm},
node-llama-cpp ${VERSIONS.nodeLlamaCpp} on ${settings.llamaThreads} of the threads. Median of ${numRounds} rounds; in brackets: ${
      names[0] ?? "ours"
    } / that server.\n`,
  );
  console.log(peersTable(names, [...loads, START], results));
  if (loadBefore > MAX_LOAD) {
    console.log(
      `\nThe load average was ${loadBefore.toFixed(1)} before the start: other programs were running, do not trust these figures.`,
    );
  }
}

if (import.meta.main) await runScript("bench:peers", HELP, (args) => bench(parseSettings(args)));
