import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { EngineCore } from "../../src/engine/engine_core.ts";
import { scoreToken } from "../../src/engine/prompt_logprobs.ts";
import { FakeBackend } from "./fake_backend.ts";
import { fakeLogits, historyHash } from "./fake_draw.ts";
import { runPlan } from "./planned_run.ts";
import { CoreRun, finishOf, LIMITS, request, requestBodies, solo, tokensOf } from "./requests.ts";

/** What an answer says, without times. */
function content(updates: readonly { readonly timings?: unknown }[]): unknown[] {
  return updates.map(({ timings: _, ...rest }) => rest);
}

Deno.test("whoever shares the batch, every request is told what it is told alone, and every request ends", () => {
  const plans = fc.array(fc.record({ body: requestBodies, stepsBefore: fc.nat(4), cancelAfter: fc.option(fc.nat(6), { freq: 4 }) }), {
    minLength: 1,
    maxLength: 14,
  });
  fc.assert(
    fc.property(plans, fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 20 }), (list, maxBatch, prefillChunk) => {
      const backend = new FakeBackend();
      const run = CoreRun.with(backend, { maxBatch, prefillChunk });
      const requests = list.map(({ body }, i) => request(`r${i}`, body));
      runPlan(run, list, requests, () => {
        const numBefore = run.core.stats().promptTokens;
        run.step();
        assert(run.core.stats().promptTokens - numBefore <= prefillChunk, "A step computed more prompt tokens than a chunk");
      });
      for (const one of requests) {
        const together = run.answers.get(one.id);
        const alone = solo(one);
        assertEquals(together?.failure, null);
        const isCancelled = finishOf(together) === "cancelled";
        const updates = isCancelled ? together?.updates.slice(0, -1) ?? [] : together?.updates ?? [];
        assertEquals(content(updates), content(alone.updates).slice(0, isCancelled ? updates.length : undefined));
      }
      assert(backend.forwards.every((rows) => rows.length <= maxBatch));
      assertEquals(run.core.scheduler.rows.numRows, 0);
    }),
    { numRuns: 150 },
  );
});

Deno.test("the property above is about something: another seed, neighbour's slot or order of edits gives another text", () => {
  const base = { promptIds: [5, 6, 7], maxTokens: 8, sampling: { temperature: 1, seed: 1n } };
  const text = tokensOf(solo(request("a", base)));
  const others = [
    { ...base, sampling: { temperature: 1, seed: 2n } },
    { ...base, promptIds: [5, 6, 8] },
    { ...base, sampling: { ...base.sampling, logitBias: new Map([[3, 1]]) } },
    { ...base, sampling: { ...base.sampling, allowedTokenIds: [30, 60] } },
  ];
  for (const other of others) assert(tokensOf(solo(request("a", other))).join() !== text.join());
});

Deno.test("the stop token ends a row and is its last token", () => {
  const free = tokensOf(solo(request("a", { maxTokens: 12 })));
  const stop = free[5] ?? 0;
  const answer = solo(request("a", { maxTokens: 12, stopIds: [stop] }));
  assertEquals(tokensOf(answer), free.slice(0, free.indexOf(stop) + 1));
  assertEquals(finishOf(answer), "stop");
});

Deno.test("maxTokens ends a row with reason length, after exactly that many tokens", () => {
  const answer = solo(request("a", { maxTokens: 3 }));
  assertEquals([tokensOf(answer).length, finishOf(answer)], [3, "length"]);
});

Deno.test("a stop token that is also the last allowed one counts as stop", () => {
  const [first = 0] = tokensOf(solo(request("a", { maxTokens: 1 })));
  assertEquals(finishOf(solo(request("a", { maxTokens: 1, stopIds: [first] }))), "stop");
});

Deno.test("a stop id at the end of the prompt does not end the row", () => {
  assertEquals(tokensOf(solo(request("a", { promptIds: [1, 2, 3], maxTokens: 2, stopIds: [3] }))).length, 2);
});

Deno.test("maxTokens 0 computes the prompt and finishes with no token", () => {
  const answer = solo(request("a", { promptIds: Array(40).fill(4), maxTokens: 0 }));
  assertEquals(content(answer.updates), [{ id: "a", tokens: [], logprobs: [], finishReason: "length" }]);
});

Deno.test("a scored prompt gets the logprob of each of its tokens, whatever the chunks", () => {
  const promptIds = Array.from({ length: 30 }, (_, i) => (7 * i) % 19);
  const ids = Int32Array.from(promptIds);
  const expected = promptIds.map((id, i) => i === 0 ? null : scoreToken(fakeLogits(historyHash(ids, i) ?? 0), id, 2));
  for (const prefillChunk of [1, 7, 64]) {
    const run = CoreRun.with(new FakeBackend(), { prefillChunk }).submit(
      request("other", { maxTokens: 40 }),
      request("a", { promptIds, maxTokens: 2, promptLogprobs: 2 }),
    ).finish();
    const updates = run.answers.get("a")?.updates ?? [];
    assertEquals(updates[0]?.promptLogprobs, expected);
    assertEquals(updates.slice(1).map((update) => update.promptLogprobs), [undefined]);
    assertEquals(run.tokens("a"), tokensOf(solo(request("a", { promptIds, maxTokens: 2 }))));
  }
});

Deno.test("a scored prompt with maxTokens 0 is answered in one update", () => {
  const updates = solo(request("a", { promptIds: [1, 2, 3], maxTokens: 0, promptLogprobs: 0 })).updates;
  assertEquals(updates.length, 1);
  assertEquals(updates[0]?.promptLogprobs?.length, 3);
  assertEquals(updates[0]?.finishReason, "length");
});

Deno.test("logprobs come in the number that each row asked for", () => {
  const run = CoreRun.with(new FakeBackend());
  for (const numTopLogprobs of [-1, 0, 5, 20]) run.submit(request(`top${numTopLogprobs}`, { maxTokens: 3, sampling: { numTopLogprobs } }));
  run.finish();
  const counts = (id: string): number[] =>
    run.answers.get(id)?.updates.flatMap(({ logprobs }) => logprobs.map(({ top }) => top.length)) ?? [];
  assertEquals(counts("top-1"), []);
  assertEquals(counts("top0"), [0, 0, 0]);
  assertEquals(counts("top5"), [5, 5, 5]);
  assertEquals(counts("top20"), [20, 20, 20]);
});

Deno.test("timings add up to the time from submit to finish", () => {
  let nowMs = 1000;
  const run = new CoreRun(new EngineCore(new FakeBackend(), { ...LIMITS, maxBatch: 1 }, () => nowMs++));
  const start = nowMs;
  run.submit(request("a", { maxTokens: 4 }), request("b", { maxTokens: 4 })).finish();
  const { queueMs, prefillMs, decodeMs } = run.answers.get("b")?.updates.at(-1)?.timings ?? { queueMs: 0, prefillMs: 0, decodeMs: 0 };
  assert(queueMs > 0 && prefillMs > 0 && decodeMs > 0);
  assert(queueMs + prefillMs + decodeMs < nowMs - start && queueMs > prefillMs);
});

Deno.test("the first update with tokens tells what went before it, so that who leaves early knows", () => {
  let nowMs = 1000;
  const run = new CoreRun(new EngineCore(new FakeBackend(), { ...LIMITS, maxBatch: 1 }, () => nowMs++));
  run.submit(request("a", { maxTokens: 4 }), request("b", { maxTokens: 4 })).finish();
  const timings = run.answers.get("b")?.updates.map((update) => update.timings) ?? [];
  const last = timings.at(-1)!;
  assertEquals(timings, [{ queueMs: last.queueMs, prefillMs: last.prefillMs, decodeMs: 0 }, undefined, undefined, last]);
});

Deno.test("stats count steps, rows and tokens", () => {
  const run = CoreRun.with(new FakeBackend()).submit(
    request("a", { maxTokens: 5 }),
    request("b", { maxTokens: 3, promptIds: [1, 2, 3, 4] }),
  );
  run.step();
  assertEquals(run.core.stats().stepRows, 2);
  assertEquals(run.core.stats().rowsActive, 2);
  run.finish();
  const { steps, promptTokens, generatedTokens, rowsActive, rowsWaiting } = run.core.stats();
  assertEquals({ steps, promptTokens, generatedTokens, rowsActive, rowsWaiting }, {
    steps: 5,
    promptTokens: 7,
    generatedTokens: 8,
    rowsActive: 0,
    rowsWaiting: 0,
  });
});

Deno.test("the cache's memory goes back when the table is empty, and the next request works", () => {
  const backend = new FakeBackend();
  const run = CoreRun.with(backend).submit(request("a"));
  run.step();
  assertEquals(run.core.releaseMemory(), false);
  run.finish();
  assertEquals(run.core.releaseMemory(), true);
  assertEquals(run.core.stats().kvBytes, 0);
  assertEquals(run.core.releaseMemory(), false);
  assertEquals(run.submit(request("b")).finish().tokens("b"), run.tokens("a"));
});

Deno.test("limits outside their domain are refused with the value", () => {
  assertThrows(
    () => CoreRun.with(new FakeBackend(), { prefillChunk: 0 }),
    RangeError,
    "prefillChunk is 0, allowed are whole numbers from 1",
  );
  assertThrows(() => CoreRun.with(new FakeBackend(), { maxBatch: 1.5 }), RangeError, "maxBatch is 1.5");
});
