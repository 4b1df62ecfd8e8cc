/**
 * What the prefix cache is worth, inside the engine: requests that share a long beginning (a system prompt, a document) arrive together and one
 * after another, without the cache, with it, and on an engine that starts with what another one has left on the disk.
 */
import { parseArgs } from "node:util";
import { TerminalProgress } from "../../src/cli/terminal_progress.ts";
import { DiskClient } from "../../src/engine/disk/disk_client.ts";
import type { PageDisk } from "../../src/engine/disk/page_disk.ts";
import { EngineCore } from "../../src/engine/engine_core.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import { GREEDY } from "../../src/engine/sampling.ts";
import { Turns } from "../../src/engine/turns.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import type { ModelSpec } from "../../src/native/model_spec.ts";
import { ensureLibrary } from "../build_ffi.ts";
import { runScript } from "../run_script.ts";
import { ensureModel } from "../setup.ts";

const HELP = `Usage: deno task bench:prefix [flags]
  --requests N   requests (default: 16)
  --rows N       rows that share a step, at most (default: 8)
  --shared N     tokens that all prompts begin with (default: 2048)
  --own N        tokens of each prompt behind them (default: 32)
  --tokens N     tokens of each answer (default: 16)
  --cache-mb N   memory of the cache (default: 512)
  --model PATH   model (default: the default model)`;

const NUMBERS = { requests: 16, rows: 8, shared: 2048, own: 32, tokens: 16, "cache-mb": 512 } as const;

type Settings = Readonly<Record<keyof typeof NUMBERS, number>>;
type Arrival = "together" | "in turn";

interface Result {
  readonly seconds: number;
  readonly medianFirstTokenMs: number;
  readonly numComputed: number;
  readonly numHit: number;
  /** The longest step in which some row decoded. */
  readonly longestGapMs: number;
  readonly texts: readonly string[];
}

function parseSettings(args: string[]): { settings: Settings; model: string | null } {
  const names = Object.keys(NUMBERS) as (keyof typeof NUMBERS)[];
  const options = Object.fromEntries([...names, "model"].map((name) => [name, { type: "string" as const }]));
  const { values } = parseArgs({ args, options });
  const number = (name: keyof typeof NUMBERS): number => {
    const value = values[name];
    if (value === undefined) return NUMBERS[name];
    if (!/^[1-9]\d*$/.test(`${value}`)) throw new Error(`--${name} has "${value}", expected a whole number from 1`);
    return Number(value);
  };
  const settings = Object.fromEntries(names.map((name) => [name, number(name)])) as Settings;
  return { settings, model: values["model"] === undefined ? null : `${values["model"]}` };
}

function requests({ requests, shared, own, tokens }: Settings): GenerateRequest[] {
  return Array.from({ length: requests }, (_, i) => ({
    id: `r${i}`,
    promptIds: Int32Array.from({ length: shared + own }, (_, j) => 100 + (j < shared ? j * j * 37 : j * j * (41 + 2 * i)) % 40_000),
    sampling: GREEDY,
    maxTokens: tokens,
    stopIds: [],
    promptLogprobs: -1,
  }));
}

/** What all engines of the bench have in common. */
interface Bench {
  readonly backend: NativeBackend;
  readonly settings: Settings;
  readonly openDisk: () => DiskClient;
}

/** Runs all requests on an engine with an empty memory. */
async function measure(
  { backend, settings }: Bench,
  prefixCacheBytes: number,
  arrival: Arrival,
  disk: PageDisk | null = null,
): Promise<Result> {
  const maxContext = settings.shared + settings.own + settings.tokens;
  const limits = { maxBatch: settings.rows, maxContext, maxQueue: settings.requests, prefillChunk: 256, prefixCacheBytes };
  const core = new EngineCore(backend, limits, undefined, undefined, disk);
  const turns = new Turns();
  if (disk !== null) disk.onAnswer = (): void => core.prefixes.writeBehind();
  const waiting = requests(settings);
  const texts = new Map(waiting.map(({ id }) => [id, [] as number[]]));
  const submittedMs = new Map<string, number>();
  const firstTokenMs: number[] = [];
  const startMs = performance.now();
  let longestGapMs = 0;
  while (waiting.length > 0 || core.hasWork) {
    for (const request of waiting.splice(0, arrival === "together" ? Infinity : Number(!core.hasWork))) {
      core.submit(request);
      submittedMs.set(request.id, performance.now());
    }
    const hasDecoding = core.scheduler.rows.sequences.some(({ isPrefilling }) => !isPrefilling);
    const stepMs = performance.now();
    const { updates, failures } = core.step();
    const nowMs = performance.now();
    if (failures[0] !== undefined) throw new Error(failures[0].message);
    if (hasDecoding) longestGapMs = Math.max(longestGapMs, nowMs - stepMs);
    for (const { id, tokens } of updates) {
      if (texts.get(id)?.length === 0) firstTokenMs.push(nowMs - (submittedMs.get(id) ?? 0));
      texts.get(id)?.push(...tokens);
    }
    // The disk answers between steps, as in the engine's worker.
    if (disk !== null) await new Promise<void>((resolve) => turns.after(resolve));
  }
  const seconds = (performance.now() - startMs) / 1000;
  while (!core.prefixes.isSettled) await new Promise<void>((resolve) => turns.after(resolve));
  turns.close();
  const { promptTokens, prefix } = core.stats();
  core.prefixes.clear();
  core.releaseMemory();
  const medianFirstTokenMs = firstTokenMs.toSorted((a, b) => a - b)[Math.floor(firstTokenMs.length / 2)] ?? NaN;
  const numHit = prefix?.hitTokens ?? 0;
  return { seconds, medianFirstTokenMs, numComputed: promptTokens, numHit, longestGapMs, texts: [...texts.values()].map(String) };
}

/** An engine leaves what it has computed on the disk; the next one is measured. */
async function measureRestarted(bench: Bench, prefixCacheBytes: number, arrival: Arrival): Promise<Result> {
  const [before, after] = [bench.openDisk(), bench.openDisk()];
  try {
    await measure(bench, prefixCacheBytes, arrival, before);
    return await measure(bench, prefixCacheBytes, arrival, after);
  } finally {
    before.close();
    after.close();
  }
}

async function report(bench: Bench): Promise<void> {
  const { requests, shared, own, tokens, rows, "cache-mb": cacheMb } = bench.settings;
  console.log(`${requests} requests of ${shared} shared and ${own} own tokens, answers of ${tokens}, ${rows} rows\n`);
  console.log(
    "| arrival | cache | seconds | × without | first token, median ms | prompt tokens computed | taken | longest gap ms | equal texts |",
  );
  console.log("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
  for (const arrival of ["together", "in turn"] as const) {
    const without = await measure(bench, 0, arrival);
    const cached = await measure(bench, cacheMb * 1e6, arrival);
    const restarted = await measureRestarted(bench, cacheMb * 1e6, arrival);
    for (const [name, result] of [["off", without], ["on", cached], ["from the disk", restarted]] as const) {
      const numEqual = result.texts.filter((text, i) => text === without.texts[i]).length;
      const cells = [
        result.seconds.toFixed(2),
        (without.seconds / result.seconds).toFixed(2),
        result.medianFirstTokenMs.toFixed(0),
        result.numComputed,
        result.numHit,
        result.longestGapMs.toFixed(0),
        `${numEqual} of ${requests}`,
      ];
      console.log(`| ${arrival} | ${name} | ${cells.join(" | ")} |`);
    }
  }
}

function openDisk(folder: string, libraryPath: string, model: ModelSpec, { facts }: NativeBackend): DiskClient {
  return new DiskClient({ folder, maxBytes: 8e9, identity: { libraryPath, build: facts.build ?? {}, model } });
}

async function run({ settings, model }: ReturnType<typeof parseSettings>): Promise<void> {
  const progress = new TerminalProgress();
  const libraryPath = await ensureLibrary(progress);
  const { spec } = loadModel(model ?? await ensureModel(progress));
  const backend = NativeBackend.load(libraryPath, spec);
  const folder = await Deno.makeTempDir();
  try {
    await report({ backend, settings, openDisk: () => openDisk(folder, libraryPath, spec, backend) });
  } finally {
    backend.close();
    await Deno.remove(folder, { recursive: true });
  }
}

if (import.meta.main) await runScript("bench:prefix", HELP, (args) => run(parseSettings(args)));
