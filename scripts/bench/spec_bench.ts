/**
 * Tokens per second with drafts and without, inside the engine: 1, 4 and 8 rows; greedy, one shared configuration at 0.7, all distinct; texts
 * that prompt lookup is made for and texts that it is not. Rows end one after another; fewer rows than texts run all texts, one batch after
 * another. Plain decoding and drafters, each alone and then all together, take turns in every case, and begin each case without what they have learned
 * of how drafts do.
 */
import { parseArgs } from "node:util";
import { TerminalProgress } from "../../src/cli/terminal_progress.ts";
import { EngineCore } from "../../src/engine/engine_core.ts";
import { makeSpeculation } from "../../src/engine/make_speculation.ts";
import type { DraftKind, SpeculationOptions } from "../../src/engine/messages.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import type { Speculation } from "../../src/engine/speculation.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { loadDrafter } from "../../src/models/drafters.ts";
import type { LoadedModel } from "../../src/models/loaded_model.ts";
import { ensureLibrary } from "../build_ffi.ts";
import { runScript } from "../run_script.ts";
import { ensureModel } from "../setup.ts";
import { type Mode, MODES, numPrompts, promptIds, promptOf, samplingOf, type Subject, SUBJECTS } from "./spec_workload.ts";

const HELP = `Usage: deno task bench:spec [flags]
  --rows LIST           numbers of rows (default: 1,4,8)
  --tokens N            tokens of the longest answer; the others of a batch end earlier, down to a fifth of it (default: 128)
  --repeats N           runs of each case; the median is shown (default: 3)
  --model PATH          model (default: the default model)
  --draft-model PATH    drafter to measure beside prompt lookup
  --draft-tokens N      drafts of one row in one round, at most
  --best-guess          the drafter's best tokens as drafts, not those that the target is going to draw`;

interface Settings {
  readonly rows: readonly number[];
  readonly numTokens: number;
  readonly numRepeats: number;
  readonly model: string | null;
  readonly draftModel: string | null;
  readonly speculation: SpeculationOptions;
}

interface Case {
  readonly numRows: number;
  readonly subject: Subject;
  readonly mode: Mode;
}

interface Bench {
  readonly model: LoadedModel;
  readonly backend: NativeBackend;
  readonly settings: Settings;
}

/** Nobody drafts, one kind does, or in every round whichever kind does best. */
type Contender = "plain" | DraftKind | "all";

interface Sample {
  readonly tokensPerSecond: number;
  readonly acceptedPerRound: number;
}

function parseSettings(args: string[]): Settings {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args,
    options: {
      rows: { ...text, default: "1,4,8" },
      tokens: { ...text, default: "128" },
      repeats: { ...text, default: "3" },
      model: text,
      "draft-model": text,
      "draft-tokens": text,
      "best-guess": { type: "boolean", default: false },
    },
  });
  const maxDrafts = values["draft-tokens"];
  return {
    rows: values.rows.split(",").map((item) => positive("--rows", item)),
    numTokens: positive("--tokens", values.tokens),
    numRepeats: positive("--repeats", values.repeats),
    model: values.model ?? null,
    draftModel: values["draft-model"] ?? null,
    speculation: {
      isCoupled: !values["best-guess"],
      ...(maxDrafts === undefined ? {} : { maxDrafts: positive("--draft-tokens", maxDrafts) }),
    },
  };
}

function positive(flag: string, text: string): number {
  if (!/^[1-9]\d*$/.test(text)) throw new Error(`${flag} has "${text}", expected a whole number from 1`);
  return Number(text);
}

/** What rows have brought since every one of them had its first token. */
interface Counts {
  numTokens: number;
  numRounds: number;
  numAccepted: number;
  ms: number;
}

/** Runs the rows of one case, or batch after batch of them until every text has had a row. */
function measure(bench: Bench, contender: Contender, speculation: Speculation, one: Case): Sample {
  const counts: Counts = { numTokens: 0, numRounds: 0, numAccepted: 0, ms: 0 };
  for (let first = 0; first < Math.max(one.numRows, numPrompts(one.subject)); first += one.numRows) {
    runBatch(bench, contender, speculation, one, first, counts);
  }
  const { numTokens, numRounds, numAccepted, ms } = counts;
  return { tokensPerSecond: 1000 * numTokens / ms, acceptedPerRound: numRounds === 0 ? 0 : numAccepted / numRounds };
}

function runBatch(
  { model, backend, settings }: Bench,
  contender: Contender,
  speculation: Speculation,
  { numRows, subject, mode }: Case,
  first: number,
  counts: Counts,
): void {
  const limits = { maxBatch: numRows, maxContext: model.maxContext, maxQueue: numRows, prefillChunk: 256 };
  const core = new EngineCore(backend, limits, undefined, speculation);
  const wish = contender === "plain" || contender === "all" ? {} : { draftKind: contender };
  for (let i = 0; i < numRows; i++) {
    const maxTokens = Math.ceil(settings.numTokens * (1 - 0.8 * i / Math.max(1, numRows)));
    const common = { sampling: samplingOf(mode, first + i), stopIds: [], promptLogprobs: -1, ...wish };
    core.submit({ id: `r${i}`, promptIds: promptIds(model, promptOf(subject, first + i)), maxTokens, ...common });
  }
  let startMs = 0;
  while (core.hasWork) {
    const hasPrompts = core.scheduler.numWaiting > 0 || core.scheduler.rows.sequences.some(({ isPrefilling }) => isPrefilling);
    if (startMs === 0 && core.scheduler.rows.numRows > 0 && !hasPrompts) startMs = performance.now();
    const { updates, failures } = core.step();
    if (failures[0] !== undefined) throw new Error(failures[0].message);
    if (startMs === 0) continue;
    for (const { tokens, round } of updates) {
      counts.numTokens += tokens.length;
      counts.numRounds += Number(round !== undefined);
      counts.numAccepted += round?.numAccepted ?? 0;
    }
  }
  counts.ms += performance.now() - startMs;
  core.releaseMemory();
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return ((sorted[Math.floor((sorted.length - 1) / 2)] ?? NaN) + (sorted[Math.ceil((sorted.length - 1) / 2)] ?? NaN)) / 2;
}

function runCase(bench: Bench, contenders: readonly Contender[], one: Case): Sample[] {
  const { model: { spec }, backend, settings } = bench;
  const runs = contenders.map((contender) => ({
    contender,
    speculation: makeSpeculation(contender === "plain" ? { model: spec } : { ...settings, model: spec }, backend),
    samples: [] as Sample[],
  }));
  for (let repeat = 0; repeat < settings.numRepeats; repeat++) {
    for (const { contender, speculation, samples } of runs) samples.push(measure(bench, contender, speculation, one));
  }
  return runs.map(({ samples: list }) => ({
    tokensPerSecond: median(list.map(({ tokensPerSecond }) => tokensPerSecond)),
    acceptedPerRound: median(list.map(({ acceptedPerRound }) => acceptedPerRound)),
  }));
}

function report(bench: Bench): void {
  const { backend, settings } = bench;
  const [plain, ...drafters] = contendersOf(backend);
  console.log(
    `| rows | text | sampling | plain tok/s |${drafters.map((contender) => ` ${contender} tok/s | × plain | accepted a round |`).join("")}`,
  );
  console.log(`| ---: | --- | --- | ---: |${" ---: | ---: | ---: |".repeat(drafters.length)}`);
  for (const numRows of settings.rows) {
    for (const subject of SUBJECTS) {
      const rates = new Map<Mode, Sample[]>();
      for (const mode of MODES) {
        const [base, ...others] = runCase(bench, [plain, ...drafters], { numRows, subject, mode });
        rates.set(mode, [base!, ...others]);
        const cells = others.map(({ tokensPerSecond: rate, acceptedPerRound }) =>
          ` ${rate.toFixed(1)} | ${(rate / base!.tokensPerSecond).toFixed(2)} | ${acceptedPerRound.toFixed(2)} |`
        );
        console.log(`| ${numRows} | ${subject} | ${mode} | ${base!.tokensPerSecond.toFixed(1)} |${cells.join("")}`);
      }
      const ratios = [plain, ...drafters].map((contender, i) =>
        `${contender} ${(rates.get("distinct")![i]!.tokensPerSecond / rates.get("shared")![i]!.tokensPerSecond).toFixed(2)}`
      );
      console.log(`| ${numRows} | ${subject} | distinct / shared | ${ratios.join(", ")} |`);
    }
  }
}

function contendersOf({ drafter }: NativeBackend): [Contender, ...Contender[]] {
  return ["plain", "ngram", ...(drafter === null ? [] : [drafter.kind, "all" as const])];
}

async function run(settings: Settings): Promise<void> {
  const progress = new TerminalProgress();
  const libraryPath = await ensureLibrary(progress);
  const model = loadModel(settings.model ?? await ensureModel(progress));
  const drafter = settings.draftModel === null ? null : loadDrafter(settings.draftModel, model);
  const backend = NativeBackend.load(libraryPath, model.spec, false, drafter);
  try {
    const bench: Bench = { model, backend, settings };
    // The first steps of a process are slow.
    runCase(bench, ["plain"], { numRows: 1, subject: "lookup", mode: "greedy" });
    console.log(`${settings.numTokens} tokens for the longest row, median of ${settings.numRepeats}\n`);
    report(bench);
  } finally {
    backend.close();
  }
}

if (import.meta.main) await runScript("bench:spec", HELP, (args) => run(parseSettings(args)));
