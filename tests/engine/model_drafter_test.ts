/** Rounds of drafters with weights, with rows of all kinds that join, leave and are cancelled: every text is that of plain decoding. */
import { fileURLToPath } from "node:url";
import { assert, assertEquals } from "@std/assert";
import { EngineCore } from "../../src/engine/engine_core.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { ModelDrafter } from "../../src/engine/model_drafter.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import { NgramDrafter } from "../../src/engine/ngram_drafter.ts";
import type { SamplingConfig } from "../../src/engine/sampling.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { loadDrafter } from "../../src/models/drafters.ts";
import { findLibrary } from "../../src/native/library.ts";
import { contentOf } from "./oracle_drafter.ts";
import { CoreRun, LIMITS, request } from "./requests.ts";

const CASES = [
  ["qwen3_5-mtp", ".", 3],
  ["eagle3", "drafter", 3],
  ["dflash", "drafter", 5],
  ["dflash-qwen3_5", "drafter", 5],
] as const;

function withBackend(name: string, drafterFolder: string, body: (backend: NativeBackend, vocabSize: number) => void): void {
  const path = (inner: string): string => fileURLToPath(new URL(`../fixtures/drafters/${name}/${inner}`, import.meta.url));
  const model = loadModel(path("."), { dtype: "float32" });
  const backend = NativeBackend.load(findLibrary(), model.spec, false, loadDrafter(path(drafterFolder), model));
  try {
    body(backend, model.vocabSize);
  } finally {
    backend.close();
  }
}

function coreRun(backend: NativeBackend, speculation: Speculation): CoreRun {
  return new CoreRun(new EngineCore(backend, { ...LIMITS, maxBatch: 8, prefillChunk: 5 }, undefined, speculation));
}

const KINDS: readonly Partial<SamplingConfig>[] = [
  { numTopLogprobs: 2 },
  { temperature: 0.3, seed: 3n },
  { temperature: 0.7, seed: 4n, topK: 20, numTopLogprobs: 0 },
  { temperature: 1, seed: 5n, frequencyPenalty: 0.4, repetitionPenalty: 1.1 },
  { temperature: 0.8, seed: 6n, minP: 0.05, dryMultiplier: 0.5 },
  { minTokens: 12, badWords: [[3], [7, 8]] },
  { temperature: 1.3, seed: 8n, xtcProbability: 0.5 },
  { temperature: 0.5, seed: 9n, logitBias: new Map([[5, 2]]), presencePenalty: 0.3 },
];

/** Rows of lengths 6, 11, … that start and end at different steps. */
const REQUESTS: readonly GenerateRequest[] = KINDS.map((sampling, i) =>
  request(`r${i}`, {
    sampling,
    maxTokens: 6 + 5 * i,
    promptIds: Array.from({ length: 1 + 3 * i }, (_, j) => (7 * i + 5 * j + 1) % 120),
    stopIds: [9],
  })
);

/** All requests, some of them late, and one that is cancelled in the middle. */
function play(run: CoreRun): CoreRun {
  run.submit(...REQUESTS.slice(0, 5), request("leaves", { maxTokens: 40, promptIds: [1, 2, 3] }));
  for (let steps = 0; steps < 4; steps++) run.step();
  run.core.cancel("leaves");
  run.submit(...REQUESTS.slice(5));
  run.finish();
  run.core.releaseMemory();
  return run;
}

for (const [name, folder, maxDrafts] of CASES) {
  Deno.test(`${name}: rows of all kinds get the text, logprobs and finish of plain decoding while they join, leave and are cancelled`, () =>
    withBackend(name, folder, (backend, vocabSize) => {
      const plain = play(coreRun(backend, new Speculation([], { isAdaptive: false })));
      const drafters = [new ModelDrafter(backend.drafter!, maxDrafts, vocabSize), new NgramDrafter(maxDrafts)];
      const run = play(coreRun(backend, new Speculation(drafters, { isAdaptive: false, maxStepTokens: 24 })));
      for (const one of REQUESTS) assertEquals(contentOf(run, one), contentOf(plain, one), one.id);
      const accepted = REQUESTS.flatMap(({ id }) => run.answers.get(id)!.updates.map(({ round }) => round?.numAccepted ?? 0));
      assert(accepted.reduce((sum, count) => sum + count, 0) > 20, `Accepted in each step: ${accepted.join(" ")}`);
    }));
}
