/**
 * `deno task bench:step`: where the time of a decode step goes. The same rows run inside the engine's core, in the engine's worker and over HTTP;
 * the differences are what messages and HTTP cost. Runs take turns, and medians over all steps count.
 */
import { parseArgs } from "node:util";
import { startChildServer } from "../../src/cli/bench/child_server.ts";
import { median } from "../../src/cli/bench/report.ts";
import type { BenchServer } from "../../src/cli/bench/stream_client.ts";
import { TerminalProgress } from "../../src/cli/terminal_progress.ts";
import { EngineClient } from "../../src/engine/client.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import type { LoadedModel } from "../../src/models/loaded_model.ts";
import { ensureLibrary } from "../build_ffi.ts";
import { runScript } from "../run_script.ts";
import { ensureModel } from "../setup.ts";
import { partsOf, type StepLine, stepTable } from "./step/step_parts.ts";
import { LIMITS, requestsOf, runCore, runServed, runWorker, type StepCase } from "./step/step_runs.ts";
import { ThreadClock } from "../../src/native/thread_clock.ts";
import { TimedBackend } from "./step/timed_backend.ts";

const HELP = `Usage: deno task bench:step [flags]
  --rows LIST      numbers of rows, up to ${LIMITS.maxBatch} (default: 1,8,16)
  --tokens N       tokens of each row (default: 64)
  --repeats N      runs of each case (default: 3)
  --model PATH     model (default: the default model)`;

const MODES = ["greedy", "distinct"] as const;
/** A server has run for a while as a rule: V8 has compiled what a step runs after some thousands of them. */
const WARM_UP_RUNS = 4;

interface Settings {
  readonly rows: readonly number[];
  readonly numTokens: number;
  readonly numRepeats: number;
  readonly model: string | null;
}

/** The same model three times. */
interface Subjects {
  readonly model: LoadedModel;
  readonly backend: TimedBackend;
  readonly engine: EngineClient;
  readonly server: BenchServer;
}

function parseSettings(args: string[]): Settings {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args,
    options: { rows: { ...text, default: "1,8,16" }, tokens: { ...text, default: "64" }, repeats: { ...text, default: "3" }, model: text },
  });
  return {
    rows: values.rows.split(",").map((item) => whole("--rows", item, 1, LIMITS.maxBatch)),
    // Less leaves no steps in which all rows decode.
    numTokens: whole("--tokens", values.tokens, 8, 512),
    numRepeats: whole("--repeats", values.repeats, 1, 1000),
    model: values.model ?? null,
  };
}

function whole(flag: string, text: string, min: number, max: number): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < min || value > max) {
    throw new Error(`${flag} has "${text}", expected a whole number from ${min} to ${max}`);
  }
  return value;
}

async function measure({ model, backend, engine, server }: Subjects, one: StepCase, numRepeats: number): Promise<StepLine> {
  const requests = requestsOf(model, one);
  const times = { coreMs: [] as number[], launchMs: [] as number[], backendMs: [] as number[], drawMs: [] as number[] };
  const [workerMs, servedMs]: [number[], number[]] = [[], []];
  for (let repeat = 0; repeat < numRepeats; repeat++) {
    backend.isSplit = false;
    const steps = runCore(backend, requests);
    for (const key of ["coreMs", "launchMs", "backendMs"] as const) times[key].push(...steps[key]);
    backend.isSplit = true;
    times.drawMs.push(...runCore(backend, requests).sampleMs);
    workerMs.push(...await runWorker(engine, requests));
    servedMs.push(...await runServed(server, one));
  }
  const parts = partsOf({
    coreMs: median(times.coreMs),
    launchMs: median(times.launchMs),
    backendMs: median(times.backendMs),
    drawMs: median(times.drawMs),
    workerMs: median(workerMs),
    servedMs: median(servedMs),
  });
  return { numRows: one.numRows, mode: one.mode, parts };
}

async function bench(settings: Settings): Promise<void> {
  const progress = new TerminalProgress();
  const libraryPath = await ensureLibrary(progress);
  const modelPath = settings.model ?? await ensureModel(progress);
  Deno.env.set("ROWLOCK_LIBRARY", libraryPath);
  const model = loadModel(modelPath);
  using clock = new ThreadClock();
  const backend = new TimedBackend(NativeBackend.load(libraryPath, model.spec), clock);
  const engine = await EngineClient.start({ libraryPath, model: model.spec, ...LIMITS });
  const child = await startChildServer(["--model", modelPath, "--max-batch", `${LIMITS.maxBatch}`, "--no-speculation"]);
  try {
    const subjects = { model, backend, engine, server: { name: "rowlock", url: child.url, model: "default" } };
    progress.note("Warming up");
    await measure(subjects, { numRows: 1, mode: "greedy", numTokens: 512 }, WARM_UP_RUNS);
    const lines: StepLine[] = [];
    for (const numRows of settings.rows) {
      for (const mode of MODES) {
        progress.note(`${numRows} rows, ${mode}`);
        lines.push(await measure(subjects, { numRows, mode, numTokens: settings.numTokens }, settings.numRepeats));
      }
    }
    console.log(`${settings.numTokens} tokens each, medians over all steps of ${settings.numRepeats} runs\n\n${stepTable(lines)}`);
    const [loadAverage = 0] = Deno.loadavg();
    console.log(`\nLoad average ${loadAverage.toFixed(1)}: of other programs, more than 1 spoils the figures.`);
  } finally {
    await child.stop();
    await engine.close();
    backend.close();
  }
}

if (import.meta.main) await runScript("bench:step", HELP, (args) => bench(parseSettings(args)));
