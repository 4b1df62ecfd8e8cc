/**
 * Accepted drafts a round of a drafter with weights, by temperature: with its best tokens as drafts, and with drafts that are drawn as the target
 * draws. Every row drafts as much as it can in every round, so that nothing but the drafts decides.
 */
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { TerminalProgress } from "../../src/cli/terminal_progress.ts";
import { EngineCore } from "../../src/engine/engine_core.ts";
import { ModelDrafter } from "../../src/engine/model_drafter.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import { GREEDY } from "../../src/engine/sampling.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { loadDrafter } from "../../src/models/drafters.ts";
import type { LoadedModel } from "../../src/models/loaded_model.ts";
import { ensureLibrary } from "../build_ffi.ts";
import { runScript } from "../run_script.ts";
import { ensureModel } from "../setup.ts";
import { promptIds, STORIES } from "./spec_workload.ts";

const HELP = `Usage: deno task bench:acceptance [flags]
  --tokens N            tokens of every answer, at most (default: 120)
  --rows N              answers for each temperature (default: 16)
  --model PATH          model (default: the default model)
  --draft-model PATH    drafter (default: the default model's)
  --draft-tokens N      drafts of a round (default: 3)`;
const TEMPERATURES = [0, 0.3, 0.7, 1];
const MAX_BATCH = 8;
const DEFAULT_DRAFTER = fileURLToPath(new URL("../../tests/fixtures/drafter/smollm2-135m-instruct-eagle3", import.meta.url));

interface Setup {
  readonly model: LoadedModel;
  readonly backend: NativeBackend;
  readonly numRows: number;
  readonly numTokens: number;
  readonly numDrafts: number;
}

interface Outcome {
  /** Right drafts of a full round, on average. */
  readonly accepted: number;
  /** Share of rounds whose first draft was right, whose first two were, … */
  readonly shares: readonly number[];
}

function measure({ model, backend, numRows, numTokens, numDrafts }: Setup, temperature: number, isCoupled: boolean): Outcome {
  const drafter = new ModelDrafter(backend.drafter!, numDrafts, backend.facts.vocabSize, isCoupled);
  const limits = { maxBatch: MAX_BATCH, maxContext: model.maxContext, maxQueue: numRows, prefillChunk: 256 };
  const core = new EngineCore(backend, limits, undefined, new Speculation([drafter], { isAdaptive: false }));
  for (let i = 0; i < numRows; i++) {
    const sampling = { ...GREEDY, temperature, seed: BigInt(i) };
    const prompt = promptIds(model, STORIES[i % STORIES.length]!);
    core.submit({ id: `r${i}`, promptIds: prompt, maxTokens: numTokens, sampling, stopIds: model.stopIds, promptLogprobs: -1 });
  }
  const reached = Array<number>(numDrafts).fill(0);
  let numRounds = 0;
  while (core.hasWork) {
    const { updates, failures } = core.step();
    if (failures[0] !== undefined) throw new Error(failures[0].message);
    for (const { round } of updates) {
      // The last rounds of a row have fewer drafts.
      if (round?.numDrafts !== numDrafts) continue;
      numRounds++;
      for (let i = 0; i < round.numAccepted; i++) reached[i]!++;
    }
  }
  core.releaseMemory();
  const shares = reached.map((count) => count / numRounds);
  return { accepted: shares.reduce((sum, share) => sum + share, 0), shares };
}

function report(setup: Setup): void {
  console.log(`${setup.numRows} answers of up to ${setup.numTokens} tokens, ${setup.numDrafts} drafts a round\n`);
  console.log("| temperature | drafts | accepted a round | first draft right | first two | all | of greedy at 0 |");
  console.log("| ---: | --- | ---: | ---: | ---: | ---: | ---: |");
  const base = measure(setup, 0, false).accepted;
  const percent = (share: number | undefined): string => share === undefined ? "" : `${(100 * share).toFixed(1)} %`;
  for (const temperature of TEMPERATURES) {
    for (const isCoupled of [false, true]) {
      const { accepted, shares } = measure(setup, temperature, isCoupled);
      const cells = [temperature, isCoupled ? "coupled" : "greedy", accepted.toFixed(2), percent(shares[0]), percent(shares[1])];
      console.log(`| ${cells.join(" | ")} | ${percent(shares.at(-1))} | ${(accepted / base).toFixed(2)} |`);
    }
  }
}

async function run(): Promise<void> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    options: {
      tokens: { ...text, default: "120" },
      rows: { ...text, default: "16" },
      model: text,
      "draft-model": { ...text, default: DEFAULT_DRAFTER },
      "draft-tokens": { ...text, default: "3" },
    },
  });
  const [numTokens, numRows, numDrafts] = [values.tokens, values.rows, values["draft-tokens"]].map((value) => {
    if (!/^[1-9]\d*$/.test(value)) throw new Error(`"${value}" is given for a count, expected a whole number from 1`);
    return Number(value);
  }) as [number, number, number];
  const progress = new TerminalProgress();
  const libraryPath = await ensureLibrary(progress);
  const model = loadModel(values.model ?? await ensureModel(progress));
  const backend = NativeBackend.load(libraryPath, model.spec, false, loadDrafter(values["draft-model"], model));
  try {
    report({ model, backend, numRows, numTokens, numDrafts });
  } finally {
    backend.close();
  }
}

if (import.meta.main) await runScript("bench:acceptance", HELP, run);
