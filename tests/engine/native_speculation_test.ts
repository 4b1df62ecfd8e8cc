/** Rounds over the real forward and sampler, with a tiny random model whose greedy texts repeat themselves. */
import { assert, assertEquals } from "@std/assert";
import { EngineCore } from "../../src/engine/engine_core.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import { NgramDrafter } from "../../src/engine/ngram_drafter.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import { findLibrary } from "../../src/native/library.ts";
import { makeTinyModel } from "../native/tiny_model.ts";
import { contentOf } from "./oracle_drafter.ts";
import { CoreRun, LIMITS, request } from "./requests.ts";

function withRun(maxDrafts: number, body: (run: CoreRun) => void): void {
  const tiny = makeTinyModel();
  const backend = NativeBackend.load(findLibrary(), tiny.spec);
  const drafters = maxDrafts > 0 ? [new NgramDrafter(maxDrafts)] : [];
  try {
    const speculation = new Speculation(drafters, { isAdaptive: false });
    body(new CoreRun(new EngineCore(backend, { ...LIMITS, maxBatch: 8, prefillChunk: 7 }, undefined, speculation)));
  } finally {
    backend.close();
    tiny.remove();
  }
}

const REPEATING = [1, 2, 3, 4, 1, 2, 3, 4, 1, 2];
const LOW = { temperature: 0.3, seed: 11n };

const REQUESTS: readonly GenerateRequest[] = [
  request("greedy", { promptIds: REPEATING, maxTokens: 60, sampling: { numTopLogprobs: 3 } }),
  request("short", { promptIds: [5, 6, 5, 6, 5], maxTokens: 9 }),
  request("cool", { promptIds: REPEATING, maxTokens: 50, sampling: { ...LOW, numTopLogprobs: 0 } }),
  request("hot", { promptIds: [9, 9, 9, 9], maxTokens: 40, sampling: { temperature: 1.2, seed: 6n, topK: 3 } }),
  request("penalized", { promptIds: [1, 2, 1, 2], maxTokens: 44, sampling: { frequencyPenalty: 0.1, repetitionPenalty: 1.05 } }),
  request("dry", { promptIds: [7, 8, 7, 8, 7], maxTokens: 36, sampling: { dryMultiplier: 0.2, dryAllowedLength: 3 } }),
  request("masked", { promptIds: Array(12).fill(5), maxTokens: 30, sampling: { ...LOW, allowedTokenIds: [5, 6, 7] } }),
  request("banned", { promptIds: [4, 4, 4], maxTokens: 30, sampling: { badWords: [[4, 4], [3]], minP: 0.1, ...LOW } }),
];

Deno.test("over the real model, prompt lookup leaves texts and logprobs as they are and takes fewer steps", () => {
  const plain = new Map<string, unknown>();
  let numPlainSteps = 0;
  withRun(0, (run) => {
    run.submit(...REQUESTS).finish();
    for (const one of REQUESTS) plain.set(one.id, contentOf(run, one));
    numPlainSteps = run.core.stats().steps;
  });
  for (const maxDrafts of [1, 2, 5]) {
    withRun(maxDrafts, (run) => {
      run.submit(...REQUESTS).finish();
      for (const one of REQUESTS) assertEquals(contentOf(run, one), plain.get(one.id), `${one.id}, ${maxDrafts} drafts`);
      const rounds = REQUESTS.map(({ id }) =>
        run.answers.get(id)?.updates.filter(({ round }) => (round?.numAccepted ?? 0) > 0).length ?? 0
      );
      assert(rounds.filter((numGood) => numGood > 0).length >= 4, `Rounds with accepted drafts: ${rounds.join(", ")}`);
      const { steps } = run.core.stats();
      assert(steps < numPlainSteps, `${steps} steps with drafts, ${numPlainSteps} without`);
    });
  }
});
