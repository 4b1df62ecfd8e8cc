import { assert, assertEquals } from "@std/assert";
import { SamplingBatch } from "../../src/engine/sampling_batch.ts";
import { Scheduler } from "../../src/engine/scheduler.ts";
import { Sequence } from "../../src/engine/sequence.ts";
import { FakeBackend } from "./fake_backend.ts";
import { CoreRun, request } from "./requests.ts";

const prompt = (length: number): number[] => Array.from({ length }, (_, i) => i % 20);

Deno.test("a long prompt is computed in chunks, and rows that decode get a token in every one of these steps", () => {
  const backend = new FakeBackend();
  const run = CoreRun.with(backend, { prefillChunk: 16 }).submit(request("short", { maxTokens: 20 }));
  run.step();
  run.submit(request("long", { promptIds: prompt(50), maxTokens: 1 }));
  for (const count of [16, 16, 16, 2]) {
    run.step();
    assertEquals(backend.forwards.at(-1)?.map((row) => row.count), [1, count]);
  }
  assertEquals(run.tokens("short").length, 5);
  assertEquals(run.tokens("long").length, 1);
});

Deno.test("only the chunk that ends a prompt asks for logits", () => {
  const backend = new FakeBackend();
  CoreRun.with(backend, { prefillChunk: 10 }).submit(request("a", { promptIds: prompt(25), maxTokens: 1 })).finish();
  assertEquals(backend.forwards.map((rows) => rows.map(({ offset, count, outputs }) => [offset, count, outputs])), [
    [[0, 10, 0]],
    [[10, 10, 0]],
    [[20, 5, 1]],
  ]);
});

Deno.test("several short prompts share one chunk without padding, first come first served", () => {
  const backend = new FakeBackend();
  const run = CoreRun.with(backend, { prefillChunk: 16 });
  run.submit(request("a", { promptIds: prompt(6) }), request("b", { promptIds: prompt(7) }), request("c", { promptIds: prompt(9) }));
  run.step();
  assertEquals(backend.forwards[0]?.map(({ count, outputs }) => [count, outputs]), [[6, 1], [7, 1], [3, 0]]);
});

Deno.test("prefill goes by arrival, also when a later request sits in an earlier slot", () => {
  const run = CoreRun.with(new FakeBackend(), { maxBatch: 3, prefillChunk: 8 });
  run.submit(request("brief", { promptIds: prompt(2), maxTokens: 2 }));
  run.submit(request("earlier", { promptIds: prompt(40) }), request("later", { promptIds: prompt(40) }));
  run.step();
  run.step();
  // "brief" has left slot 0, and the last row, "later", went there.
  assertEquals(run.core.scheduler.rows.sequences.map(({ id }) => id), ["later", "earlier"]);
  while (run.tokens("earlier").length === 0) run.step();
  assertEquals(run.core.scheduler.find("later")?.cachedLen, 6);
});

Deno.test("the logits that scored prompts ask for in one step are bounded, while other prompts use the rest of the chunk", () => {
  const vocabSize = 2_000_000;
  const scheduler = new Scheduler({ maxBatch: 4, maxQueue: 4, prefillChunk: 64, vocabSize }, new SamplingBatch(vocabSize));
  const bodies = [{ promptLogprobs: 0 }, { promptLogprobs: 0 }, {}].map((body) => ({ ...body, promptIds: prompt(40) }));
  for (const [i, body] of bodies.entries()) scheduler.enqueue(new Sequence(request(`r${i}`, body), i, 0));
  while (scheduler.canAdmit()) scheduler.admit();
  assertEquals(scheduler.schedule().stepRows.map(({ count, outputs }) => [count, outputs]), [[4, 4], [40, 1]]);
});

Deno.test("requests beyond the batch wait in order and get the rows that become free", () => {
  const run = CoreRun.with(new FakeBackend(), { maxBatch: 2 });
  run.submit(...["a", "b", "c", "d"].map((id, i) => request(id, { maxTokens: 2 + i })));
  run.step();
  assertEquals(run.core.scheduler.waiting.map(({ id }) => id), ["c", "d"]);
  run.step();
  run.step();
  assertEquals(run.core.scheduler.rows.sequences.map(({ id }) => id), ["c"]);
  assertEquals(run.core.scheduler.waiting.map(({ id }) => id), ["d"]);
  run.step();
  assertEquals(run.core.scheduler.rows.sequences.map(({ id }) => id), ["c", "d"]);
});

Deno.test("a full queue refuses a request by name and lets the others go on", () => {
  const run = CoreRun.with(new FakeBackend(), { maxBatch: 1, maxQueue: 2 });
  run.submit(request("a"), request("b"), request("c"), request("d"));
  assertEquals(run.answers.get("d")?.failure?.code, "queue_full");
  assert(run.answers.get("d")?.failure?.message.includes("the limit is 2"));
  run.finish();
  for (const id of ["a", "b", "c"]) assertEquals(run.tokens(id).length, 8);
});

Deno.test("a queue of zero still takes requests for which a row is free", () => {
  const run = CoreRun.with(new FakeBackend(), { maxBatch: 2, maxQueue: 0 });
  run.submit(request("a"), request("b"), request("c"));
  assertEquals(["a", "b", "c"].map((id) => run.answers.get(id)?.failure?.code ?? null), [null, null, "queue_full"]);
});

Deno.test("a cancelled row leaves before the next forward and is told so", () => {
  const backend = new FakeBackend();
  const run = CoreRun.with(backend).submit(request("a"), request("b"));
  run.step();
  run.core.cancel("a");
  run.step();
  assertEquals(backend.forwards.at(-1)?.length, 1);
  assertEquals(run.answers.get("a")?.updates.at(-1)?.finishReason, "cancelled");
  assertEquals(run.tokens("a").length, 1);
});

Deno.test("a cancelled request that still waits never gets a row", () => {
  const backend = new FakeBackend();
  const run = CoreRun.with(backend, { maxBatch: 1 }).submit(request("a"), request("b"), request("c"));
  run.core.cancel("b");
  run.finish();
  assertEquals(run.answers.get("b")?.updates.map(({ finishReason }) => finishReason), ["cancelled"]);
  assertEquals(run.tokens("c").length, 8);
});

Deno.test("cancelling a request that is gone or never was changes nothing", () => {
  const run = CoreRun.with(new FakeBackend()).submit(request("a")).finish();
  run.core.cancel("a");
  run.core.cancel("nobody");
  assertEquals(run.core.hasWork, false);
});
