/** Who is measured when: in every round each server is started alone, gets all loads and is stopped; the next round starts with another one. */
import type { Progress } from "../../../src/hub/progress.ts";
import { timeStream } from "../../../src/cli/bench/stream_client.ts";
import type { Load, LoadContext } from "./loads.ts";
import { type LoadLines, PeerResults } from "./peers_table.ts";
import type { PromptMaker } from "./prompts.ts";
import { type Launch, ServerProcess } from "./server_process.ts";

export interface RoundSettings {
  readonly maxRounds: number;
  /** No round begins that would, if it takes as long as the one before, end later. What still runs at the end is given up. */
  readonly budgetMs: number;
  /** A load that takes longer is given up. */
  readonly loadTimeoutMs: number;
}

export const START: LoadLines = {
  key: "start",
  title: "alone and idle",
  measures: [
    { key: "firstTokenMs", title: "start to first token, ms", decimals: 0 },
    { key: "residentMb", title: "memory after it, MB", decimals: 0 },
  ],
};

const TIME_UP = "its share of the time was up";
const WARM_UP_ANSWER = 8;
const SEEDS_PER_LOAD = 1000;

/** @returns what was measured, and how many rounds began. */
export async function runRounds(
  launches: readonly Launch[],
  loads: readonly Load[],
  prompts: PromptMaker,
  settings: RoundSettings,
  progress: Progress,
): Promise<{ readonly results: PeerResults; readonly numRounds: number }> {
  const results = new PeerResults();
  const startedMs = performance.now();
  let [numRounds, lastRoundMs] = [0, 0];
  while (numRounds < settings.maxRounds && performance.now() - startedMs + lastRoundMs <= settings.budgetMs) {
    const roundStartMs = performance.now();
    for (const [i, launch] of rotate(launches, numRounds).entries()) {
      // A server that crawls leaves those after it their share of what is left.
      const leftMs = startedMs + settings.budgetMs - performance.now();
      const budget = AbortSignal.timeout(Math.max(0, Math.ceil(leftMs / (launches.length - i))));
      progress.note(`Round ${numRounds + 1} of up to ${settings.maxRounds}: ${launch.name}`);
      await visit({ launch, loads, prompts, results, budget, settings, round: numRounds, progress });
    }
    lastRoundMs = performance.now() - roundStartMs;
    numRounds++;
  }
  return { results, numRounds };
}

/** The same servers, another first: none is always measured when the machine has just become warm. */
export function rotate<T>(items: readonly T[], by: number): T[] {
  const at = items.length === 0 ? 0 : by % items.length;
  return [...items.slice(at), ...items.slice(0, at)];
}

interface Visit {
  readonly launch: Launch;
  readonly loads: readonly Load[];
  readonly prompts: PromptMaker;
  readonly results: PeerResults;
  readonly budget: AbortSignal;
  readonly settings: RoundSettings;
  readonly round: number;
  readonly progress: Progress;
}

/** Loads that take long are run in the first round only. */
export function isDue({ only, isLong }: Load, server: string, round: number): boolean {
  return (only === undefined || only === server) && (round === 0 || isLong !== true);
}

/** A server that failed a load may still be at work on it, or broken: it is started anew for the next one. */
async function visit(one: Visit): Promise<void> {
  const { launch, results, budget, round, progress } = one;
  const pending = one.loads.filter((load) => isDue(load, launch.name, round));
  let isFirstStart = true;
  while (pending.length > 0 && !budget.aborted) {
    try {
      const started = await ServerProcess.start(launch, budget);
      await using process = started.process;
      if (isFirstStart) results.add(launch.name, START.key, { values: await startValues(started.firstTokenMs, process) });
      isFirstStart = false;
      await warmUp({ server: process.server, prompts: one.prompts, seed: -1 - round, signal: budget });
      while (pending.length > 0 && await runLoad(one, pending.shift()!, process));
    } catch (error) {
      const fault = budget.aborted ? TIME_UP : firstLine(error);
      progress.note(error instanceof Error ? error.message : String(error));
      for (const load of pending.splice(0)) results.add(launch.name, load.key, { fault });
    }
  }
  for (const load of pending) results.add(launch.name, load.key, { fault: TIME_UP });
}

async function startValues(firstTokenMs: number, process: ServerProcess): Promise<Record<string, number>> {
  return { firstTokenMs, residentMb: await process.residentBytes() / 1e6 };
}

/** Buffers of both widths are made, code is compiled. */
async function warmUp(context: LoadContext): Promise<void> {
  for (const numRows of [1, 8]) {
    const rows = Array.from({ length: numRows }, (_, row) => {
      const content = context.prompts.message(64, context.seed * 100 - row);
      const body = { messages: [{ role: "user", content }], max_tokens: WARM_UP_ANSWER, temperature: 0 };
      return timeStream(context.server, body, { signal: context.signal });
    });
    await Promise.all(rows);
  }
}

/** @returns false when the load failed. */
async function runLoad(one: Visit, load: Load, { server }: ServerProcess): Promise<boolean> {
  const { launch, loads, prompts, results, budget, settings, round, progress } = one;
  const timeout = AbortSignal.timeout(settings.loadTimeoutMs);
  const seed = (round * loads.length + loads.indexOf(load)) * SEEDS_PER_LOAD;
  // The other requests of a load whose one request failed are left too.
  const left = new AbortController();
  const signal = AbortSignal.any([budget, timeout, left.signal]);
  try {
    results.add(launch.name, load.key, { values: await load.run({ server, prompts, seed, signal }) });
    return true;
  } catch (error) {
    left.abort();
    const fault = budget.aborted ? TIME_UP : timeout.aborted ? `took more than ${settings.loadTimeoutMs / 1000} s` : firstLine(error);
    results.add(launch.name, load.key, { fault });
    progress.note(`${launch.name}, ${load.title}: ${fault}`);
    return false;
  }
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n")[0]!.slice(0, 200);
}
