/**
 * χ² of whole texts that were emitted in rounds, against the law that the model alone gives them: many seeds, every text of four tokens counted.
 * Three tests at 3·10⁻⁷ each: a perfect engine with freshly chosen seeds would fail here once in a million times.
 */
import { fileURLToPath } from "node:url";
import { assert } from "@std/assert";
import { EngineCore } from "../../src/engine/engine_core.ts";
import { ModelDrafter } from "../../src/engine/model_drafter.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { loadDrafter } from "../../src/models/drafters.ts";
import { findLibrary } from "../../src/native/library.ts";
import { CRITICAL_Z, goodnessOfFit } from "../sampler/chi_squared.ts";
import { CoreRun, LIMITS, request } from "./requests.ts";

const ALLOWED = [20, 41, 77, 103];
const LENGTH = 4;
const TEMPERATURE = 1.5;
const NUM_SEEDS = 4000;
const PROMPT = [5, 9, 2, 14, 33];
const BATCH = 50;

/** Probabilities of the allowed tokens behind a text, from the logprobs of plain decoding. */
function nextLaw(backend: NativeBackend, text: readonly number[]): number[] {
  const run = new CoreRun(new EngineCore(backend, LIMITS, undefined, new Speculation([], { isAdaptive: false })));
  const sampling = { allowedTokenIds: ALLOWED, numTopLogprobs: ALLOWED.length };
  run.submit(request("one", { promptIds: [...PROMPT, ...text], maxTokens: 1, sampling })).finish();
  const top = run.answers.get("one")!.updates.flatMap(({ logprobs }) => logprobs)[0]!.top;
  const weights = ALLOWED.map((id) => Math.exp(top.find(({ token }) => token === id)!.logprob / TEMPERATURE));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

/** Probabilities of all texts of `LENGTH` tokens, first token first. */
function textLaw(backend: NativeBackend, text: readonly number[] = []): number[] {
  if (text.length === LENGTH) return [1];
  const law = nextLaw(backend, text);
  return ALLOWED.flatMap((token, i) => textLaw(backend, [...text, token]).map((probability) => law[i]! * probability));
}

interface Emitted {
  /** Texts, as in `textLaw`. */
  readonly counts: Float64Array;
  readonly numDrafts: number;
  readonly numAccepted: number;
}

function emit(backend: NativeBackend, vocabSize: number): Emitted {
  const counts = new Float64Array(ALLOWED.length ** LENGTH);
  let [numDrafts, numAccepted] = [0, 0];
  const speculation = new Speculation([new ModelDrafter(backend.drafter!, LENGTH - 2, vocabSize)], { isAdaptive: false });
  for (let first = 0; first < NUM_SEEDS; first += BATCH) {
    const run = new CoreRun(new EngineCore(backend, { ...LIMITS, maxBatch: BATCH, prefillChunk: 512 }, undefined, speculation));
    for (let seed = first; seed < first + BATCH; seed++) {
      const sampling = { allowedTokenIds: ALLOWED, temperature: TEMPERATURE, seed: BigInt(seed) };
      run.submit(request(`r${seed}`, { promptIds: PROMPT, maxTokens: LENGTH, sampling }));
    }
    run.finish();
    for (const [id, { updates }] of run.answers) {
      counts[run.tokens(id).reduce((index, token) => ALLOWED.length * index + ALLOWED.indexOf(token), 0)]!++;
      for (const { round } of updates) {
        [numDrafts, numAccepted] = [numDrafts + (round?.numDrafts ?? 0), numAccepted + (round?.numAccepted ?? 0)];
      }
    }
    run.core.releaseMemory();
  }
  return { counts, numDrafts, numAccepted };
}

for (const [name, drafterFolder] of [["eagle3", "drafter"], ["qwen3_5-mtp", "."], ["dflash", "drafter"]] as const) {
  Deno.test(`${name}: texts that come in rounds follow the model's own law, with drafts that are right and drafts that are wrong`, () => {
    const path = (inner: string): string => fileURLToPath(new URL(`../fixtures/drafters/${name}/${inner}`, import.meta.url));
    const model = loadModel(path("."), { dtype: "float32" });
    const backend = NativeBackend.load(findLibrary(), model.spec, false, loadDrafter(path(drafterFolder), model));
    try {
      const law = textLaw(backend);
      const { counts, numDrafts, numAccepted } = emit(backend, model.vocabSize);
      const share = numAccepted / numDrafts;
      assert(share > 0.1 && share < 0.95, `${numAccepted} of ${numDrafts} drafts accepted: too few of one sort to tell anything`);
      const { z, degrees } = goodnessOfFit(counts, law.map((probability) => probability * NUM_SEEDS));
      assert(z < CRITICAL_Z, `z is ${z.toFixed(2)} at ${degrees} degrees of freedom, allowed below ${CRITICAL_Z}`);
      assert(degrees > 30, `Only ${degrees} degrees of freedom`);
    } finally {
      backend.close();
    }
  });
}
