/** The engine over the real native library and a tiny random model. */
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { EngineClient } from "../../src/engine/client.ts";
import { EngineCore } from "../../src/engine/engine_core.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import { findLibrary } from "../../src/native/library.ts";
import { makeTinyModel, TINY } from "../native/tiny_model.ts";
import { type Answer, CoreRun, LIMITS, request } from "./requests.ts";

function withRun(body: (run: CoreRun, backend: NativeBackend) => void): void {
  const tiny = makeTinyModel();
  const backend = NativeBackend.load(findLibrary(), tiny.spec);
  try {
    body(new CoreRun(new EngineCore(backend, { ...LIMITS, prefillChunk: 7 })), backend);
  } finally {
    backend.close();
    tiny.remove();
  }
}

const REQUESTS: readonly GenerateRequest[] = [
  request("greedy", { promptIds: [1, 2, 3], maxTokens: 20 }),
  request("seeded", { promptIds: [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 11], maxTokens: 12, sampling: { temperature: 1, seed: 5n } }),
  request("hot", { promptIds: [40], maxTokens: 30, sampling: { temperature: 5, seed: 6n, topK: 50 } }),
  request("penalized", { promptIds: [1, 2, 3], maxTokens: 16, sampling: { frequencyPenalty: 2, presencePenalty: 1 } }),
  request("masked", { promptIds: Array(30).fill(5), maxTokens: 6, sampling: { temperature: 1, allowedTokenIds: [70, 71, 72] } }),
  request("banned", { promptIds: [4, 4], maxTokens: 9, sampling: { logitBias: new Map([[4, -Infinity]]), badWords: [[1], [2, 3]] } }),
];

Deno.test("over the real model, rows that share steps give their solo texts", () => {
  const alone = new Map<string, number[]>();
  withRun((run) => {
    for (const one of REQUESTS) alone.set(one.id, run.submit(one).finish().tokens(one.id));
  });
  withRun((run) => {
    run.submit(...REQUESTS).finish();
    assert(run.core.stats().steps < 60, `${run.core.stats().steps} steps`);
    for (const { id, maxTokens } of REQUESTS) {
      assertEquals(run.tokens(id), alone.get(id), id);
      assertEquals(run.tokens(id).length, maxTokens);
    }
  });
  assert(alone.get("masked")?.every((token) => [70, 71, 72].includes(token)));
  assert(!alone.get("banned")?.includes(4));
  assert(new Set(alone.get("penalized")).size > 12);
});

Deno.test("rows that go on without the host get the same bits", () => {
  const all = [
    ...REQUESTS,
    request("scored", { promptIds: [9, 9], maxTokens: 14, sampling: { temperature: 1, seed: 3n, numTopLogprobs: 4 } }),
  ];
  const answers = [false, true].map((launchesNext) => {
    const found: Answer[] = [];
    withRun((run, backend) => {
      let numGoOns = 0;
      const goOn = backend.goOn.bind(backend);
      backend.goOn = (call, plan): void => (numGoOns++, goOn(call, plan));
      run.launchesNext = launchesNext;
      run.submit(...all).finish();
      assert(launchesNext ? numGoOns > 5 : numGoOns === 0, `${numGoOns} forwards went on`);
      found.push(...all.map(({ id }) => run.answers.get(id)!));
    });
    return found.map(({ updates, failure }) => [updates.flatMap((one) => one.tokens), updates.flatMap((one) => one.logprobs), failure]);
  });
  assertEquals(answers[1], answers[0]);
});

Deno.test("the logprob told with a generated token is the one that scoring the same text gives", () =>
  withRun((run) => {
    const promptIds = [3, 1, 4, 1, 5];
    run.submit(request("a", { promptIds, maxTokens: 10, sampling: { temperature: 1, seed: 9n, numTopLogprobs: 3 } })).finish();
    const generated = run.answers.get("a")?.updates.flatMap(({ logprobs }) => logprobs) ?? [];
    run.submit(request("b", { promptIds: [...promptIds, ...run.tokens("a")], maxTokens: 0, promptLogprobs: 3 })).finish();
    const scored = run.answers.get("b")?.updates[0]?.promptLogprobs?.slice(promptIds.length) ?? [];
    assertEquals(scored.length, 10);
    for (const [i, score] of scored.entries()) {
      assertAlmostEquals(score?.logprob ?? NaN, generated[i]?.logprob ?? NaN, 1e-4);
      assertEquals(score?.top.map(({ token }) => token), generated[i]?.top.map(({ token }) => token));
    }
  }));

Deno.test("the cache grows with the rows and its memory goes back", () =>
  withRun((run, backend) => {
    const { kvBytesPerToken, isKvSparse } = backend.facts;
    run.submit(...REQUESTS);
    let mostTokens = 0;
    while (run.core.hasWork) {
      run.step();
      const { sequences } = run.core.scheduler.rows;
      const { slots, capacity } = run.core.room;
      const numTokens = isKvSparse ? sequences.reduce((sum, { cachedLen }) => sum + cachedLen, 0) : slots * capacity;
      assertEquals(backend.memory().kvBytes, numTokens * kvBytesPerToken);
      mostTokens = Math.max(mostTokens, numTokens);
    }
    assert(mostTokens > 40, `${mostTokens} tokens at most`);
    run.core.releaseMemory();
    assertEquals(backend.memory().kvBytes, 0);
  }));

Deno.test("the worker serves the real model, and a model that is broken is told by its loader", async () => {
  const tiny = makeTinyModel();
  const options = { ...LIMITS, libraryPath: findLibrary(), model: tiny.spec };
  const client = await EngineClient.start(options);
  assertEquals(client.facts.vocabSize, TINY.vocabSize);
  const texts = await Promise.all(
    REQUESTS.map(async (one) => (await Array.fromAsync(client.generate(one))).flatMap(({ tokens }) => tokens)),
  );
  await client.close();
  withRun((run) => {
    run.submit(...REQUESTS).finish();
    for (const [i, { id }] of REQUESTS.entries()) assertEquals(texts[i], run.tokens(id));
  });
  assertThrows(() => NativeBackend.load(findLibrary(), { ...tiny.spec, tensors: [] }), Error, "rl_model_load failed");
  tiny.remove();
});
