import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { FakeBackend } from "./fake_backend.ts";
import { BREAKING_TOKEN } from "./fake_draw.ts";
import { CoreRun, request, requestBodies, solo, tokensOf } from "./requests.ts";

Deno.test("a forward that fails answers the rows that took part with an error, and the next requests are right", () => {
  let isFailing = false;
  const backend = new FakeBackend({ forward: () => isFailing ? "The device is gone" : null });
  const run = CoreRun.with(backend).submit(request("a"), request("b"));
  run.step();
  isFailing = true;
  run.step();
  isFailing = false;
  for (const id of ["a", "b"]) assertEquals(run.answers.get(id)?.failure, { id, code: "engine_error", message: "The device is gone" });
  assertEquals(run.core.scheduler.rows.numRows, 0);
  assertEquals(backend.clearedSlots, [0, 1]);
  assertEquals(run.submit(request("c")).finish().tokens("c"), tokensOf(solo(request("c"))));
});

Deno.test("a failed step does not touch rows that had no part in it", () => {
  let isFailing = false;
  const backend = new FakeBackend({ sample: () => isFailing ? "No sample" : null });
  const run = CoreRun.with(backend, { prefillChunk: 4 });
  run.submit(request("first", { promptIds: [1, 2, 3, 4] }), request("later", { promptIds: [4, 3, 2] }));
  isFailing = true;
  run.step();
  isFailing = false;
  run.finish();
  assertEquals(run.answers.get("first")?.failure?.code, "engine_error");
  assertEquals(run.tokens("later"), tokensOf(solo(request("later", { promptIds: [4, 3, 2] }))));
});

Deno.test("a broken row fails alone", () => {
  const run = CoreRun.with(new FakeBackend()).submit(
    request("good"),
    request("broken", { promptIds: [1, BREAKING_TOKEN] }),
    request("other", { promptIds: [9] }),
  ).finish();
  assertEquals(run.answers.get("broken")?.failure?.code, "row_broken");
  assertEquals(run.tokens("broken"), []);
  for (const [id, promptIds] of [["good", [1, 2, 3]], ["other", [9]]] as const) {
    assertEquals(run.answers.get(id)?.failure, null);
    assertEquals(run.tokens(id), tokensOf(solo(request(id, { promptIds }))));
  }
});

Deno.test("what a broken row left in its slot reaches neither the row that moves there nor the next one that gets it", () => {
  const backend = new FakeBackend();
  const run = CoreRun.with(backend, { maxBatch: 2, prefillChunk: 3 });
  run.submit(request("broken", { promptIds: [1, 1, 1, 1, 1, BREAKING_TOKEN] }), request("moves", { promptIds: [2, 3] }));
  run.submit(request("cancelled", { promptIds: [1, 1, 1, BREAKING_TOKEN, 1, 1, 1, 1, 1] }), request("next", { promptIds: [4] }));
  const numCached = (): number => run.core.scheduler.find("cancelled")?.cachedLen ?? Infinity;
  while (numCached() < 4) run.step();
  assert(numCached() < 9, "The prompt is complete before it is cancelled");
  run.core.cancel("cancelled");
  run.finish();
  assertEquals(run.answers.get("broken")?.failure?.code, "row_broken");
  for (const [id, promptIds] of [["moves", [2, 3]], ["next", [4]]] as const) {
    assertEquals(run.tokens(id), tokensOf(solo(request(id, { promptIds }))), id);
  }
});

Deno.test("a row that finishes well costs no clearing", () => {
  const backend = new FakeBackend();
  CoreRun.with(backend).submit(request("a"), request("b", { maxTokens: 3 })).finish();
  assertEquals(backend.clearedSlots, []);
});

Deno.test("a broken position in a scored prompt fails that row alone", () => {
  const run = CoreRun.with(new FakeBackend()).submit(
    request("scored", { promptIds: [1, BREAKING_TOKEN, 2, 3], promptLogprobs: 0 }),
    request("good"),
  ).finish();
  assertEquals(run.answers.get("scored")?.failure?.code, "row_broken");
  assertEquals(run.tokens("good"), tokensOf(solo(request("good"))));
});

Deno.test("what a row asks of the host fails that row alone", () => {
  const run = CoreRun.with(new FakeBackend()).submit(request("bad", { sampling: { frequencyPenalty: 1 } }), request("good"));
  run.step();
  const edits = run.core.scheduler.find("bad")?.edits;
  assert(edits);
  edits.writeTo = () => {
    throw new Error("Host processor broke");
  };
  run.finish();
  assertEquals(run.answers.get("bad")?.failure?.message, "Host processor broke");
  assertEquals(run.tokens("good"), tokensOf(solo(request("good"))));
});

Deno.test("when memory is short rows wait for each other, and only one that does not fit alone fails", () => {
  const run = CoreRun.with(new FakeBackend({ maxTokens: 128 })).submit(request("a"), request("b"));
  run.step();
  const long = request("long", { promptIds: Array(90).fill(5) });
  run.submit(long, request("c"), request("longer", { promptIds: Array(130).fill(5) }), request("d")).finish();
  assertEquals(run.answers.get("longer")?.failure?.code, "out_of_memory");
  for (const one of [...["a", "b", "c", "d"].map((id) => request(id)), long]) assertEquals(run.tokens(one.id), tokensOf(solo(one)), one.id);
  assert(run.core.stats().preemptions > 0);
});

Deno.test("a row whose KV cannot be moved leaves with an error and the others go on", () => {
  const backend = new FakeBackend({ move: (from) => from === 3 ? "No move" : null });
  const run = CoreRun.with(backend).submit(...[2, 9, 9, 9].map((maxTokens, i) => request(`r${i}`, { promptIds: [i + 1], maxTokens })));
  run.finish();
  assertEquals(run.answers.get("r3")?.failure?.message, "No move");
  for (const i of [0, 1, 2]) {
    const id = `r${i}`;
    assertEquals(run.tokens(id), tokensOf(solo(request(id, { promptIds: [i + 1], maxTokens: i === 0 ? 2 : 9 }))));
  }
});

Deno.test("under random faults every request ends, with its solo text or an error, and nothing is left behind", () => {
  const flags = fc.array(fc.boolean(), { maxLength: 40 });
  const faults = fc.record({ forward: flags, sample: flags, goOn: flags, launchesNext: fc.boolean() });
  const text = (happens: boolean | undefined): string | null => happens ? "Injected" : null;
  fc.assert(fc.property(fc.array(requestBodies, { minLength: 1, maxLength: 10 }), faults, (bodies, plan) => {
    let [numForwards, numGoOns] = [0, 0];
    const backend = new FakeBackend({
      forward: () => text(plan.forward[numForwards++] && numForwards % 3 === 0),
      sample: (numCalls) => text(plan.sample[numCalls] && numCalls % 4 === 0),
      goOn: () => text(plan.goOn[numGoOns++]),
    });
    const run = CoreRun.with(backend);
    run.launchesNext = plan.launchesNext;
    run.submit(...bodies.map((body, i) => request(`r${i}`, body))).finish();
    for (const [i, body] of bodies.entries()) {
      const answer = run.answers.get(`r${i}`);
      const alone = tokensOf(solo(request(`r${i}`, body)));
      if (answer?.failure) assertEquals(tokensOf(answer), alone.slice(0, tokensOf(answer).length));
      else assertEquals(tokensOf(answer), alone);
    }
    assertEquals([run.core.scheduler.rows.numRows, run.core.scheduler.numWaiting], [0, 0]);
  }));
});

Deno.test("a request that cannot be computed is refused with the value and never gets a row", () => {
  const run = CoreRun.with(new FakeBackend());
  const refused: [Parameters<typeof request>[1], string][] = [
    [{ promptIds: [] }, "The prompt has no tokens"],
    [{ promptIds: [1, 211] }, "promptIds holds 211, allowed are token ids 0 … 210"],
    [{ promptIds: [-1] }, "promptIds holds -1"],
    [{ maxTokens: -1 }, "maxTokens is -1"],
    [{ maxTokens: 1e9 }, "exceed the context of 400"],
    [{ stopIds: [1.5] }, "stopIds holds 1.5"],
    [{ promptLogprobs: 21 }, "promptLogprobs is 21, allowed are -1 … 20"],
    [{ sampling: { temperature: NaN } }, "temperature is NaN"],
    [{ sampling: { topP: 1.01 } }, "topP is 1.01, allowed are 0 … 1"],
    [{ sampling: { repetitionPenalty: 0 } }, "repetitionPenalty is 0"],
    [{ sampling: { numTopLogprobs: 21 } }, "numTopLogprobs is 21"],
    [{ sampling: { logitBias: new Map([[999999, 1]]) } }, "logitBias holds 999999"],
    [{ sampling: { logitBias: new Map([[1, 1e308]]) } }, "logitBias holds 1e+308"],
    [{ sampling: { logitBias: new Map([[1, NaN]]) } }, "logitBias holds NaN"],
    [{ sampling: { badWords: [[1], [-3]] } }, "badWords holds -3"],
    [{ sampling: { allowedTokenIds: [] } }, "allowedTokenIds is empty"],
    [{ sampling: { drySequenceBreakers: [[300]] } }, "drySequenceBreakers holds 300"],
  ];
  for (const [i, [overrides, message]] of refused.entries()) {
    run.submit(request(`r${i}`, overrides));
    const failure = run.answers.get(`r${i}`)?.failure;
    assertEquals(failure?.code, "engine_error");
    assert(failure?.message.includes(message), `found "${failure?.message}", expected "${message}"`);
  }
  assertEquals(run.core.hasWork, false);
});

Deno.test("a second request with a running request's id is refused and the first goes on", () => {
  const run = CoreRun.with(new FakeBackend()).submit(request("a"));
  assertEquals(run.core.submit(request("a"))?.message, 'A request with id "a" is running already');
  assertEquals(run.finish().tokens("a").length, 8);
});
