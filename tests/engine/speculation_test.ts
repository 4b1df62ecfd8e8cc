/** Rounds over a model whose text changes with any mix-up: with drafts, right or wrong, every request gets the text that it gets without. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { EngineCore } from "../../src/engine/engine_core.ts";
import { NgramDrafter } from "../../src/engine/ngram_drafter.ts";
import { Sequence } from "../../src/engine/sequence.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import { DeviceClock } from "./device_clock.ts";
import { FakeBackend } from "./fake_backend.ts";
import { BREAKING_TOKEN } from "./fake_draw.ts";
import { contentOf, lies, oracleRun } from "./oracle_drafter.ts";
import { runPlan } from "./planned_run.ts";
import { CoreRun, finishOf, LIMITS, request, requestBodies, solo, tokensOf } from "./requests.ts";

const RIGHT = lies(0, 0);

Deno.test("with drafts of any quality every request gets its text, logprobs and finish of plain decoding, whoever joins or leaves", () => {
  const plans = fc.array(fc.record({ body: requestBodies, stepsBefore: fc.nat(3), cancelAfter: fc.option(fc.nat(6), { freq: 5 }) }), {
    minLength: 1,
    maxLength: 12,
  });
  const settings = fc.record({
    maxDrafts: fc.integer({ min: 1, max: 9 }),
    share: fc.constantFrom(0, 0.1, 0.4, 0.8),
    salt: fc.nat(1000),
    maxBatch: fc.integer({ min: 1, max: 8 }),
    prefillChunk: fc.integer({ min: 1, max: 20 }),
    isAdaptive: fc.boolean(),
  });
  fc.assert(
    fc.property(plans, settings, (list, { maxDrafts, share, salt, isAdaptive, ...limits }) => {
      const run = oracleRun(new FakeBackend(), { maxDrafts, lie: lies(share, salt), isAdaptive, limits });
      const requests = list.map(({ body }, i) => request(`r${i}`, body));
      runPlan(run, list, requests);
      for (const one of requests) {
        const alone = new CoreRun(new EngineCore(new FakeBackend(), LIMITS)).submit(one).finish();
        if (finishOf(run.answers.get(one.id)) === "cancelled") {
          const tokens = run.tokens(one.id);
          assertEquals(tokens, alone.tokens(one.id).slice(0, tokens.length));
        } else assertEquals(contentOf(run, one), contentOf(alone, one));
      }
    }),
    { numRuns: 200 },
  );
});

Deno.test("right drafts save steps: four tokens come in one step with three of them", () => {
  const run = oracleRun(new FakeBackend(), { maxDrafts: 3, lie: RIGHT });
  run.submit(request("a", { maxTokens: 17 })).finish();
  // One step for the prompt brings the first token, four rounds the others.
  assertEquals(run.core.stats().steps, 5);
  assertEquals(run.answers.get("a")?.updates.slice(1).map(({ round }) => round), Array(4).fill({ numDrafts: 3, numAccepted: 3 }));
});

Deno.test("a wrong draft ends the round behind the token that the model draws in its place", () => {
  const run = oracleRun(new FakeBackend(), { maxDrafts: 4, lie: (_, position) => position === 3 ? 0 : null });
  run.submit(request("a", { maxTokens: 12 })).finish();
  const rounds = run.answers.get("a")?.updates.map(({ tokens, round }) => [tokens.length, round?.numDrafts, round?.numAccepted]);
  assertEquals(rounds, [[1, undefined, undefined], [3, 4, 2], [5, 4, 4], [3, 2, 2]]);
  assertEquals(run.tokens("a"), tokensOf(solo(request("a", { maxTokens: 12 }))));
});

Deno.test("a stop id inside a round ends the request there, and the budget is never exceeded", () => {
  const free = tokensOf(solo(request("a", { maxTokens: 20 })));
  const stop = free[6] ?? 0;
  const at = free.indexOf(stop);
  const run = oracleRun(new FakeBackend(), { maxDrafts: 6, lie: (_, position) => free[position] ?? null });
  run.submit(request("a", { maxTokens: 20, stopIds: [stop] }), request("b", { maxTokens: 3 })).finish();
  assertEquals(run.tokens("a"), free.slice(0, at + 1));
  assertEquals([finishOf(run.answers.get("a")), finishOf(run.answers.get("b"))], ["stop", "length"]);
  assertEquals(run.tokens("b").length, 3);
});

Deno.test("eight rows with staggered lengths shrink to one in the middle of rounds, and each keeps its text", () => {
  const backend = new FakeBackend();
  const run = oracleRun(backend, { maxDrafts: 2, lie: (_, position) => position % 4 === 3 ? 0 : null, limits: { maxBatch: 8 } });
  const requests = Array.from({ length: 8 }, (_, i) =>
    request(`r${i}`, {
      // The rows that end first are in front, so that others move into their places.
      maxTokens: 6 + 7 * i,
      promptIds: [i + 1, 7, i],
      sampling: { seed: BigInt(i), temperature: 1, frequencyPenalty: i % 2, repetitionPenalty: 1 + i / 10, numTopLogprobs: i % 3 },
    }));
  run.submit(...requests);
  const active: number[] = [];
  while (run.core.hasWork) {
    run.step();
    const numRows = run.core.scheduler.rows.numRows;
    if (active.at(-1) !== numRows) active.push(numRows);
  }
  assertEquals(active, [8, 7, 6, 5, 4, 3, 2, 1, 0]);
  assert(backend.numMoves >= 4, `${backend.numMoves} moves`);
  for (const one of requests) assertEquals(tokensOf(run.answers.get(one.id)), tokensOf(solo(one)), one.id);
});

Deno.test("the integrity check names what drafting keeps for a row when it is left behind", () => {
  const { core } = oracleRun(new FakeBackend(), { maxDrafts: 2, lie: RIGHT });
  for (const column of core.speculation.columns) {
    const sequences = ["a", "b"].map((id, i) => new Sequence(request(id), i, 0));
    sequences.forEach((sequence, slot) => {
      sequence.slot = slot;
      column.append(sequence);
    });
    assertEquals(column.fault(0, sequences[0]!), null);
    // Row 1 goes into the hole at 0, and this column does not follow.
    assert(column.fault(0, sequences[1]!)?.includes('is that of "a"'));
  }
});

Deno.test("rows with drafts, rows without and prompts share one forward", () => {
  const backend = new FakeBackend();
  const run = oracleRun(backend, { maxDrafts: 3, lie: RIGHT, limits: { prefillChunk: 4 } });
  run.submit(request("drafts", { maxTokens: 30 }), request("plain", { maxTokens: 30, draftKind: "none" }));
  run.step();
  run.step();
  run.submit(request("late", { promptIds: Array(10).fill(3) }));
  run.step();
  assertEquals(backend.forwards.at(-1)?.map(({ count, outputs }) => [count, outputs]), [[4, 4], [1, 1], [4, 0]]);
  run.finish();
  for (const id of ["drafts", "plain"]) assertEquals(run.tokens(id), tokensOf(solo(request(id, { maxTokens: 30 }))));
});

Deno.test("neither steps nor rows with drafts get wider than they may", () => {
  const backend = new FakeBackend();
  const settings = { maxStepTokens: 24, maxRowTokens: 6 };
  const run = oracleRun(backend, { maxDrafts: 9, lie: RIGHT, limits: { maxBatch: 12 }, settings });
  run.submit(...Array.from({ length: 12 }, (_, i) => request(`r${i}`, { maxTokens: 20 }))).finish();
  const widths = backend.forwards.slice(3).map((rows) => rows.reduce((sum, { count }) => sum + count, 0));
  assertEquals(Math.max(...widths), 24);
  run.submit(request("alone", { maxTokens: 20 })).finish();
  assertEquals(Math.max(...backend.forwards.slice(-4).map((rows) => rows[0]?.count ?? 0)), 6);
});

Deno.test("a rejected draft that breaks the model does not break its row, nor what comes into the slot later", () => {
  const backend = new FakeBackend();
  const run = oracleRun(backend, { maxDrafts: 2, lie: (_, position) => position % 3 === 2 ? BREAKING_TOKEN : null });
  const requests = ["a", "b", "c"].map((id) => request(id, { maxTokens: 10, promptIds: [id.charCodeAt(0)] }));
  run.submit(...requests).finish();
  for (const one of requests) assertEquals(run.tokens(one.id), tokensOf(solo(one)));
  assertEquals(backend.clearedSlots.length, 3);
});

Deno.test("a request for a kind that is not loaded is refused by name", () => {
  const run = new CoreRun(
    new EngineCore(new FakeBackend(), LIMITS, undefined, new Speculation([new NgramDrafter(4)], { isAdaptive: true })),
  );
  run.submit(request("a", { draftKind: "eagle3" }), request("b", { draftKind: "ngram" }));
  assertEquals(run.answers.get("a")?.failure?.message, "draftKind is eagle3, loaded are none, ngram");
  assertEquals(run.answers.get("b")?.failure, null);
});

Deno.test("more drafts than the budget has room for are refused", () => {
  const sequence = new Sequence(request("a", { maxTokens: 4 }), 0, 0);
  sequence.propose([1, 2, 3]);
  assertThrows(() => sequence.propose([1, 2, 3, 4]), RangeError, "4 drafts are too many");
});

/** A clock for which a step takes `plainMs`, and `draftMs` more for each token beyond one a row. */
function steppedRun(
  lie: (id: string, position: number) => number | null,
  plainMs: number,
  draftMs: number,
): { run: CoreRun; spent: () => number } {
  const clock = new DeviceClock((plan) => plainMs + draftMs * (plan.numTokens - plan.numRows));
  const run = oracleRun(new FakeBackend(clock.faults), { maxDrafts: 7, lie, isAdaptive: true, nowMs: () => clock.nowMs });
  run.launchesNext = true;
  return { run, spent: () => clock.nowMs };
}

Deno.test("drafts that are never right cost less than three percent, and right ones at a tenth of a step bring four times as much", () => {
  const plainMs = 400 * 10;
  const wrong = steppedRun(() => 0, 10, 3);
  wrong.run.submit(request("a", { maxTokens: 380 })).finish();
  assert(wrong.spent() < 1.03 * (plainMs * 380 / 400), `${wrong.spent()} ms`);
  const right = steppedRun(RIGHT, 10, 1);
  right.run.submit(request("a", { maxTokens: 380 })).finish();
  assert(right.spent() < plainMs / 4, `${right.spent()} ms`);
});

Deno.test("drafts that cost more than they bring are left alone even when they are right", () => {
  const { run, spent } = steppedRun(RIGHT, 10, 20);
  run.submit(request("a", { maxTokens: 380 })).finish();
  assert(spent() < 1.06 * 3800, `${spent()} ms`);
});

Deno.test("a row whose drafts become right again drafts again", () => {
  const { run } = steppedRun((_, position) => position < 150 ? 0 : null, 10, 1);
  run.submit(request("a", { maxTokens: 380 })).finish();
  const accepted = run.answers.get("a")?.updates.reduce((sum, { round }) => sum + (round?.numAccepted ?? 0), 0) ?? 0;
  assert(accepted > 100, `${accepted} drafts accepted`);
});
