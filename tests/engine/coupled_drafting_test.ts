/** The bookkeeping of drafters with weights, on a drafter that is right exactly when all that reaches it is. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { EngineCore } from "../../src/engine/engine_core.ts";
import { ModelDrafter } from "../../src/engine/model_drafter.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import { FakeBackend } from "./fake_backend.ts";
import { FAKE_VOCAB_SIZE } from "./fake_draw.ts";
import { FakeDrafterBackend, type FakeDrafterKind } from "./fake_drafter_backend.ts";
import { contentOf, type Lie, OracleDrafter } from "./oracle_drafter.ts";
import { type CoreLimits } from "../../src/engine/engine_core.ts";
import { runPlan } from "./planned_run.ts";
import { CoreRun, finishOf, LIMITS, request, requestBodies, solo, tokensOf } from "./requests.ts";

interface Drafted {
  readonly run: CoreRun;
  readonly drafter: FakeDrafterBackend;
}

function draftedRun(
  kind: FakeDrafterKind,
  isWrong: (history: Int32Array) => boolean,
  limits: Partial<CoreLimits> = {},
  isCoupled = true,
): Drafted {
  const backend = new FakeBackend();
  const drafter = new FakeDrafterBackend(kind, backend, isWrong);
  const speculation = new Speculation([new ModelDrafter(drafter, 3, FAKE_VOCAB_SIZE, isCoupled)], { isAdaptive: false });
  return { run: new CoreRun(new EngineCore(backend, { ...LIMITS, ...limits }, undefined, speculation)), drafter };
}

const SAMPLING = { temperature: 1.1, seed: 77n, topK: 30, frequencyPenalty: 0.5, repetitionPenalty: 1.2, minTokens: 5, numTopLogprobs: 2 };

for (const kind of ["mtp", "eagle3"] as const) {
  Deno.test(`${kind}: a drafter with the target's logits is always right, whatever the row's sampling, because it draws as the target will`, () => {
    const { run, drafter } = draftedRun(kind, () => false, { prefillChunk: 4 });
    run.submit(...[1, 2, 3].map((i) =>
      request(`r${i}`, {
        maxTokens: 16 * i + 1,
        promptIds: Array.from({ length: 5 * i }, (_, j) => j * i),
        sampling: { ...SAMPLING, seed: BigInt(i) },
        stopIds: [i],
      })
    )).finish();
    assertEquals(drafter.faults, []);
    for (const { updates } of run.answers.values()) {
      const rounds = updates.flatMap(({ round }) => round ?? []);
      assert(rounds.length > 2);
      assertEquals(rounds.slice(0, -1), rounds.slice(0, -1).map(({ numDrafts }) => ({ numDrafts, numAccepted: numDrafts })));
    }
  });
}

Deno.test("best guesses of the same drafter are mostly wrong for a row with a temperature", () => {
  const { run } = draftedRun("mtp", () => false, {}, false);
  run.submit(request("a", { maxTokens: 60, sampling: SAMPLING })).finish();
  const accepted = run.answers.get("a")!.updates.reduce((sum, { round }) => sum + (round?.numAccepted ?? 0), 0);
  assert(accepted < 10, `${accepted} drafts accepted`);
  assertEquals(run.tokens("a"), tokensOf(solo(request("a", { maxTokens: 60, sampling: SAMPLING }))));
});

Deno.test("histories stay in step with rows that join, move, leave and mix with rows that do not draft, for every kind of drafter", () => {
  const plans = fc.array(
    fc.record({ body: requestBodies, stepsBefore: fc.nat(3), cancelAfter: fc.option(fc.nat(6), { freq: 5 }), drafts: fc.boolean() }),
    { minLength: 1, maxLength: 10 },
  );
  const settings = fc.record({
    kind: fc.constantFrom<FakeDrafterKind>("mtp", "eagle3", "dflash"),
    wrongEvery: fc.integer({ min: 2, max: 6 }),
    maxBatch: fc.integer({ min: 1, max: 6 }),
    prefillChunk: fc.integer({ min: 1, max: 20 }),
  });
  fc.assert(
    fc.property(plans, settings, (list, { kind, wrongEvery, ...limits }) => {
      const isWrong = (history: Int32Array): boolean => history.reduce((sum, token) => sum + token, 0) % wrongEvery === 0;
      const { run, drafter } = draftedRun(kind, isWrong, limits);
      const requests = list.map(({ body, drafts }, i) => request(`r${i}`, { ...body, draftKind: drafts ? kind : "none" }));
      runPlan(run, list, requests);
      assertEquals(drafter.faults, []);
      for (const one of requests) {
        if (finishOf(run.answers.get(one.id)) === "cancelled") continue;
        const alone = new CoreRun(new EngineCore(new FakeBackend(), LIMITS)).submit({ ...one, draftKind: "none" }).finish();
        assertEquals(contentOf(run, one), contentOf(alone, one));
      }
    }),
    { numRuns: 150 },
  );
});

Deno.test("a drafter that fails costs its rows their drafts and nothing else", () => {
  const { run, drafter } = draftedRun("mtp", () => false);
  let numCalls = 0;
  const draft = drafter.draft.bind(drafter);
  drafter.draft = (plan, source): void => {
    if (++numCalls === 5) throw new Error("No memory");
    draft(plan, source);
  };
  run.submit(request("a", { maxTokens: 40, sampling: SAMPLING })).finish();
  assertEquals(numCalls, 5);
  assertEquals(run.tokens("a"), tokensOf(solo(request("a", { maxTokens: 40, sampling: SAMPLING }))));
  assertEquals(run.core.stats().draftFailures, { count: 1, message: "No memory" });
  run.submit(request("b", { maxTokens: 12 })).finish();
  assert(run.answers.get("b")!.updates.some(({ round }) => round?.numAccepted === 3));
});

Deno.test("a drafter whose logits are no numbers loses its row, and the loss is counted", () => {
  const { run, drafter } = draftedRun("eagle3", () => false);
  let numCalls = 0;
  const sample = drafter.sample.bind(drafter);
  drafter.sample = (call): void => {
    sample(call);
    if (++numCalls >= 4) { for (let row = 0; row < call.numRows; row++) call.sampled.write(row, -1, NaN, 0, 0); }
  };
  assertEquals(run.core.stats().draftFailures, undefined);
  run.submit(request("a", { maxTokens: 40, sampling: SAMPLING }), request("b", { maxTokens: 30 })).finish();
  const { count, message } = run.core.stats().draftFailures!;
  assertEquals(count, 2);
  assert(/^The eagle3 drafter's logits for request "[ab]" have no token to draw$/.test(message), message);
  assertEquals(run.tokens("a"), tokensOf(solo(request("a", { maxTokens: 40, sampling: SAMPLING }))));
  assertEquals(run.tokens("b"), tokensOf(solo(request("b", { maxTokens: 30 }))));
});

Deno.test("a row whose drafts are never worth it stops paying for its history, and gets its text all the same", () => {
  let nowMs = 0;
  const backend = new FakeBackend({
    forward: (plan) => {
      nowMs += 10 + 30 * (plan.numTokens - plan.numRows);
      return null;
    },
  });
  const drafter = new FakeDrafterBackend("eagle3", backend, () => false);
  let numCalls = 0;
  const draft = drafter.draft.bind(drafter);
  drafter.draft = (plan, source): void => {
    numCalls++;
    draft(plan, source);
  };
  const speculation = new Speculation([new ModelDrafter(drafter, 3, FAKE_VOCAB_SIZE)], { isAdaptive: true });
  const run = new CoreRun(new EngineCore(backend, LIMITS, () => nowMs, speculation));
  run.submit(request("a", { maxTokens: 300 })).finish();
  assertEquals(drafter.faults, []);
  assert(numCalls > 20 && numCalls < 110, `${numCalls} calls of the drafter`);
  assertEquals(run.core.stats().draftFailures, undefined);
  assertEquals(run.tokens("a"), tokensOf(solo(request("a", { maxTokens: 300 }))));
  // The next request starts anew.
  numCalls = 0;
  run.submit(request("b", { maxTokens: 12 })).finish();
  assert(numCalls > 5, `${numCalls} calls of the drafter`);
});

Deno.test("who drafts for a request is whoever does best for it, round by round, and histories stay in step meanwhile", () => {
  const always: Lie = () => 0;
  const cases: readonly (readonly [string, (history: Int32Array) => boolean, Lie])[] = [
    ["the model's drafter alone is right", () => false, always],
    ["the other one alone is right", () => true, () => null],
    ["first the one is right, then the other", (history) => history.length < 80, (_, position) => position < 77 ? null : 0],
    ["first the other is right, then the one", (history) => history.length >= 80, (_, position) => position < 77 ? 0 : null],
  ];
  for (const [name, isWrong, lie] of cases) {
    const backend = new FakeBackend();
    const drafter = new FakeDrafterBackend("eagle3", backend, isWrong);
    const drafters = [new ModelDrafter(drafter, 3, FAKE_VOCAB_SIZE), new OracleDrafter(3, lie)];
    const run = new CoreRun(new EngineCore(backend, LIMITS, undefined, new Speculation(drafters, { isAdaptive: false })));
    const one = request("a", { maxTokens: 160 });
    run.submit(one, request("b", { maxTokens: 20, draftKind: "ngram" }), request("c", { maxTokens: 20, draftKind: "eagle3" })).finish();
    assertEquals(drafter.faults, [], name);
    assertEquals(run.tokens("a"), tokensOf(solo(one)), name);
    const numSteps = run.answers.get("a")!.updates.length;
    assert(numSteps < 70, `${name}: 160 tokens took ${numSteps} steps`);
  }
});
