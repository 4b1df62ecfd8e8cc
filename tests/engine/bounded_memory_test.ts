/** Rows within a budget of bytes: who gives way, who waits, and that nobody can tell from the text. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { type CoreLimits, EngineCore } from "../../src/engine/engine_core.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { ModelDrafter } from "../../src/engine/model_drafter.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import { BudgetedBackend } from "./budgeted_backend.ts";
import { BREAKING_TOKEN, FAKE_VOCAB_SIZE, FakeBackend } from "./fake_backend.ts";
import { FakeDrafterBackend } from "./fake_drafter_backend.ts";
import { contentOf, lies, OracleDrafter } from "./oracle_drafter.ts";
import { CoreRun, finishOf, LIMITS, request, requestBodies, solo, tokensOf } from "./requests.ts";

const WEIGHT_BYTES = 1000;
const TOKEN_BYTES = 8;

/** A budget for a cache of so many tokens, all slots together. */
function budgetFor(numTokens: number): number {
  return WEIGHT_BYTES + TOKEN_BYTES * numTokens;
}

function budgetedRun(
  numTokens: number,
  limits: Partial<CoreLimits> = {},
  speculation?: Speculation,
): { run: CoreRun; backend: BudgetedBackend } {
  const backend = new BudgetedBackend(budgetFor(numTokens));
  return { backend, run: runOn(backend, limits, speculation) };
}

function runOn(backend: BudgetedBackend, limits: Partial<CoreLimits> = {}, speculation?: Speculation): CoreRun {
  const all = { ...LIMITS, maxBatch: 8, memoryBytes: backend.limitBytes, ...limits };
  return new CoreRun(new EngineCore(backend, all, undefined, speculation));
}

function checkContents(run: CoreRun, requests: readonly GenerateRequest[]): void {
  for (const one of requests) {
    const alone = CoreRun.with(new FakeBackend()).submit(one).finish();
    if (finishOf(run.answers.get(one.id)) !== "cancelled") assertEquals(contentOf(run, one), contentOf(alone, one));
    else assertEquals(run.tokens(one.id), alone.tokens(one.id).slice(0, run.tokens(one.id).length));
  }
}

/** The bodies of `requests.ts`, long answers, and long prompts. */
const bodies = fc.oneof(
  requestBodies,
  {
    weight: 4,
    arbitrary: fc.tuple(requestBodies, fc.integer({ min: 80, max: 240 })).map(([body, maxTokens]) => ({ ...body, stopIds: [], maxTokens })),
  },
  fc.tuple(requestBodies, fc.integer({ min: 50, max: 230 })).map(([body, length]) => ({
    ...body,
    promptIds: Array.from({ length }, (_, i) => i % 20),
  })),
);

const plans = fc.record({
  list: fc.array(
    fc.record({ body: bodies, stepsBefore: fc.nat(3), cancelAfter: fc.oneof({ weight: 5, arbitrary: fc.constant(null) }, fc.nat(80)) }),
    {
      minLength: 3,
      maxLength: 10,
      size: "max",
    },
  ),
  numTokens: fc.constantFrom(320, 400, 550, 900),
  numPages: fc.constantFrom(0, 0, 5, 1000),
  isRecurrent: fc.boolean(),
  hasDrafter: fc.boolean(),
  maxBatch: fc.constantFrom(2, 3, 5, 8),
  prefillChunk: fc.integer({ min: 4, max: 100 }),
}, { noNullPrototype: true });

type Plan = typeof plans extends fc.Arbitrary<infer T> ? T : never;

/** Runs the plan; `between` is called before every step. */
function runPlan(plan: Plan, backend: BudgetedBackend, between: (run: CoreRun) => void = () => {}): CoreRun {
  const { list, numPages, isRecurrent, hasDrafter, maxBatch, prefillChunk } = plan;
  backend.isRecurrent = isRecurrent;
  const speculation = hasDrafter ? new Speculation([new OracleDrafter(4, lies(0.3, list.length))], { isAdaptive: false }) : undefined;
  const run = runOn(backend, { maxBatch, prefillChunk, prefixCacheBytes: 64 * TOKEN_BYTES * numPages }, speculation);
  const cancels: { id: string; steps: number }[] = [];
  const step = (): void => {
    between(run);
    run.step();
    run.core.prefixes.checkIntegrity();
    for (const cancel of cancels) if (cancel.steps-- === 0) run.core.cancel(cancel.id);
  };
  for (const [i, { body, stepsBefore, cancelAfter }] of list.entries()) {
    for (let steps = 0; steps < stepsBefore; steps++) step();
    run.submit(request(`r${i}`, body));
    if (cancelAfter !== null) cancels.push({ id: `r${i}`, steps: cancelAfter });
  }
  for (let steps = 0; run.core.hasWork; steps++) {
    assert(steps < 20_000, "The engine does not come to an end");
    step();
  }
  assertEquals(run.core.scheduler.rows.numRows, 0);
  return run;
}

Deno.test("the budget is never exceeded, and every request is told what it is told with all the memory there is", () => {
  let numPreemptions = 0;
  fc.assert(
    fc.property(plans, (plan) => {
      const run = runPlan(plan, new BudgetedBackend(budgetFor(plan.numTokens)));
      checkContents(run, plan.list.map(({ body }, i) => request(`r${i}`, body)));
      numPreemptions += run.core.stats().preemptions;
    }),
    { numRuns: 100 },
  );
  assert(numPreemptions > 30, `Only ${numPreemptions} rows gave way: the property is about little`);
});

Deno.test("a budget that changes while rows run is kept from then on, and changes no text", () => {
  fc.assert(
    fc.property(plans, fc.array(fc.tuple(fc.nat(12), fc.integer({ min: 320, max: 1200 })), { maxLength: 8 }), (plan, changes) => {
      const backend = new BudgetedBackend(budgetFor(plan.numTokens));
      const waiting = [...changes];
      let numSteps = 0;
      const run = runPlan(plan, backend, ({ core }) => {
        const [next] = waiting;
        if (next === undefined || numSteps++ < next[0]) return;
        waiting.shift();
        numSteps = 0;
        // What it held before may be more for as long as the call takes.
        backend.limitBytes = Infinity;
        assertEquals(core.limitMemory(budgetFor(next[1])).failures, []);
        backend.limitBytes = budgetFor(next[1]);
        assert(backend.heldBytes <= backend.limitBytes, `${backend.heldBytes} bytes are held after the call, not ${backend.limitBytes}`);
      });
      checkContents(run, plan.list.map(({ body }, i) => request(`r${i}`, body)));
    }),
    { numRuns: 60 },
  );
});

Deno.test("memory that cannot be had, in a resize or within a step, costs time and no text", () => {
  let numShortages = 0;
  const shortages = fc.array(fc.boolean(), { maxLength: 60 });
  fc.assert(
    fc.property(plans, shortages, fc.integer({ min: 320, max: 900 }), (plan, isShort, maxTokens) => {
      const backend = new BudgetedBackend(Infinity, { maxTokens });
      let numForwards = 0;
      const run = runPlan(plan, backend, ({ core }) => {
        backend.isShort = () => {
          // What one row alone cannot have fails it.
          const isNow = core.scheduler.rows.numRows > 1 && isShort[numForwards++] === true;
          numShortages += Number(isNow);
          return isNow;
        };
      });
      checkContents(run, plan.list.map(({ body }, i) => request(`r${i}`, body)));
    }),
    { numRuns: 60 },
  );
  assert(numShortages > 50, `Only ${numShortages} steps were short`);
});

for (const kind of ["mtp", "eagle3", "dflash"] as const) {
  Deno.test(`${kind}: rows that gave way come back with a history that fits their text`, () => {
    const backend = new BudgetedBackend(budgetFor(700));
    const drafter = new FakeDrafterBackend(kind, backend, (history) => history.length % 5 === 0);
    const speculation = new Speculation([new ModelDrafter(drafter, 3, FAKE_VOCAB_SIZE)], { isAdaptive: false });
    const run = runOn(backend, { prefixCacheBytes: 4 * 64 * TOKEN_BYTES }, speculation);
    const requests = Array.from(
      { length: 8 },
      (_, i) =>
        request(`r${i}`, {
          promptIds: Array.from({ length: 20 + i }, (_, k) => (k * i) % 20),
          maxTokens: 150,
          sampling: { temperature: 1 },
        }),
    );
    run.submit(...requests).finish();
    checkContents(run, requests);
    assertEquals(drafter.faults, []);
    const { preemptions, generatedTokens, steps } = run.core.stats();
    const rounds = requests.flatMap(({ id }) => run.answers.get(id)?.updates.flatMap(({ round }) => round ?? []) ?? []);
    assert(preemptions > 0 && rounds.some(({ numAccepted }) => numAccepted > 0), `${preemptions} of ${generatedTokens} in ${steps}`);
  });
}

Deno.test("the youngest row gives way, goes to the front of the queue, and comes back when the others have left room", () => {
  const { run } = budgetedRun(256, { maxBatch: 3 });
  // Two rows fit while they are short; the last one never fits beside them.
  const requests = [
    request("first", { maxTokens: 150 }),
    request("second", { maxTokens: 140 }),
    request("third", { maxTokens: 5 }),
    request("behind", { promptIds: Array(100).fill(7), maxTokens: 5 }),
  ];
  run.submit(...requests);
  const namesOf = (list: readonly { readonly id: string }[]): string[] => list.map(({ id }) => id);
  run.step();
  assertEquals(namesOf(run.core.scheduler.rows.sequences), ["first", "second", "third"]);
  while (run.core.scheduler.rows.numRows > 1) run.step();
  assertEquals(namesOf(run.core.scheduler.rows.sequences), ["first"]);
  assertEquals(namesOf(run.core.scheduler.waiting), ["second", "behind"]);
  assert(run.tokens("second").length > 100, `It gave way after ${run.tokens("second").length} tokens`);
  run.finish();
  checkContents(run, requests);
  assertEquals(run.core.stats().preemptions, 1);
});

Deno.test("what a row that gave way was told once is not told again: scores of its prompt, timings, cached tokens", () => {
  const { run } = budgetedRun(320, { maxBatch: 2, prefillChunk: 8 });
  const old = request("old", { promptIds: Array(60).fill(3), maxTokens: 130 });
  const scored = request("scored", { promptIds: Array.from({ length: 90 }, (_, i) => i % 20), maxTokens: 70, promptLogprobs: 1 });
  run.submit(old, scored).finish();
  checkContents(run, [old, scored]);
  const updates = run.answers.get("scored")!.updates;
  assertEquals(updates.filter(({ promptLogprobs }) => promptLogprobs !== undefined).length, 1);
  assertEquals(updates.filter(({ timings }) => timings !== undefined).length, 2);
  assert(run.core.stats().preemptions > 0);
});

Deno.test("a prompt that gives way while it is scored is scored once, from its beginning", () => {
  const { run } = budgetedRun(256, { maxBatch: 2, prefillChunk: 4 });
  const old = request("old", { promptIds: Array(60).fill(3), maxTokens: 130 });
  const scored = request("scored", { promptIds: Array.from({ length: 110 }, (_, i) => i % 20), maxTokens: 4, promptLogprobs: 0 });
  run.submit(old);
  run.step();
  run.submit(scored);
  run.core.limitMemory(budgetFor(1000));
  while ((run.core.scheduler.find("scored")?.cachedLen ?? 0) < 20) run.step();
  run.core.limitMemory(budgetFor(200));
  run.step();
  assertEquals([run.core.scheduler.find("scored")?.slot, run.core.scheduler.find("scored")?.cachedLen], [-1, 0]);
  run.finish();
  checkContents(run, [old, scored]);
});

Deno.test("what a row that gave way left in its slot, numbers or not, does not reach the next one that gets it", () => {
  const { run, backend } = budgetedRun(4 * 448, { maxBatch: 4, prefillChunk: 16 });
  run.submit(request("a", { maxTokens: 40 }), request("b", { maxTokens: 40 }));
  run.step();
  run.submit(request("broken", { promptIds: [1, 2, BREAKING_TOKEN, ...Array<number>(380).fill(3)] }));
  while ((run.core.scheduler.find("broken")?.cachedLen ?? 0) < 32) run.step();
  run.core.limitMemory(budgetFor(1100));
  assertEquals([run.core.scheduler.find("broken")?.slot, backend.slots.length], [-1, 4]);
  run.core.cancel("broken");
  run.submit(request("next", { promptIds: [5] })).finish();
  checkContents(run, [request("a", { maxTokens: 40 }), request("b", { maxTokens: 40 }), request("next", { promptIds: [5] })]);
});

Deno.test("prefix pages give way before any row does, the least recently used first and no more than has to be", () => {
  const { run, backend } = budgetedRun(64 * 14, { maxBatch: 2, prefixCacheBytes: 64 * TOKEN_BYTES * 8, prefillChunk: 64 });
  const prompt = (seed: number): number[] => Array.from({ length: 130 }, (_, i) => (i * seed) % 20);
  for (const seed of [1, 3, 7]) run.submit(request(`s${seed}`, { promptIds: prompt(seed), maxTokens: 2 })).finish();
  assertEquals(backend.pages.size, 6);
  // Two slots of 320 tokens leave room for four pages.
  const long = request("long", { promptIds: Array(300).fill(9), maxTokens: 80, cachePrompt: false });
  const other = request("other", { promptIds: Array(30).fill(8), maxTokens: 5, cachePrompt: false });
  run.submit(long, other).finish();
  checkContents(run, [long, other]);
  assertEquals([run.core.stats().preemptions, backend.pages.size], [0, 4]);
  run.submit(request("again", { promptIds: prompt(7) })).finish();
  assertEquals(run.answers.get("again")?.updates[0]?.cachedTokens, 128);
});

Deno.test("a request waits while it would make every row's slot too long, nobody overtakes it, and it gets its turn", () => {
  const { run } = budgetedRun(512, { maxBatch: 8 });
  const chats = Array.from({ length: 4 }, (_, i) => request(`chat${i}`, { maxTokens: 20 + i }));
  const long = request("long", { promptIds: Array(300).fill(4), maxTokens: 10 });
  run.submit(...chats);
  run.step();
  run.submit(long, request("behind", { maxTokens: 2 }));
  run.step();
  assertEquals(run.core.scheduler.waiting.map(({ id }) => id), ["long", "behind"]);
  run.finish();
  checkContents(run, [...chats, long, request("behind", { maxTokens: 2 })]);
  assertEquals(run.core.stats().preemptions, 0);
});

Deno.test("eight growing rows in half of their memory compute few tokens twice", () => {
  const requests = Array.from({ length: 8 }, (_, i) => request(`r${i}`, { promptIds: Array(30).fill(i), maxTokens: 220 }));
  const { run } = budgetedRun(4 * 256, { maxBatch: 8 });
  run.submit(...requests).finish();
  checkContents(run, requests);
  const { promptTokens, preemptions } = run.core.stats();
  assert(preemptions >= 4 && preemptions <= 12, `${preemptions} rows gave way`);
  assert(promptTokens - 8 * 30 < 8 * 220, `${promptTokens - 8 * 30} tokens were computed twice`);
});

Deno.test("a request that could never fit is refused with the numbers, and the longest one that fits is served", () => {
  const { run } = budgetedRun(320);
  assertEquals(run.core.maxRowTokens, 320);
  run.submit(
    request("fits", { promptIds: Array(300).fill(2), maxTokens: 20 }),
    request("not", { promptIds: Array(300).fill(2), maxTokens: 21 }),
  );
  const failure = run.answers.get("not")?.failure;
  assert(failure?.message.includes("exceed the context of 320"), failure?.message);
  assertEquals(run.finish().tokens("fits"), tokensOf(solo(request("fits", { promptIds: Array(300).fill(2), maxTokens: 20 }))));
});

Deno.test("a budget in which no request fits shows in what the model needs at least, and refuses every request", () => {
  const { run } = budgetedRun(63);
  assertEquals([run.core.maxRowTokens, run.core.leastBytes], [0, budgetFor(64)]);
  assert(run.submit(request("a", { maxTokens: 1 })).answers.get("a")?.failure?.message.includes("exceed the context of 0"));
  assertEquals(budgetedRun(1000, { maxContext: 100 }).run.core.leastBytes, budgetFor(128));
});

Deno.test("a row that cannot even be had alone fails with the numbers, and the next one is served", () => {
  const backend = new BudgetedBackend(Infinity, { maxTokens: 128 });
  const run = runOn(backend);
  run.submit(request("long", { promptIds: Array(200).fill(1) }), request("next", { promptIds: [4] })).finish();
  assertEquals(run.answers.get("long")?.failure?.code, "out_of_memory");
  assertEquals(run.tokens("next"), tokensOf(solo(request("next", { promptIds: [4] }))));
});

Deno.test("a step that is short of memory for one row alone fails it, and leaves nothing to the next one", () => {
  const backend = new BudgetedBackend(Infinity);
  const run = runOn(backend);
  backend.isShort = () => true;
  run.submit(request("a")).finish();
  assertEquals(run.answers.get("a")?.failure?.code, "out_of_memory");
  backend.isShort = () => false;
  assertEquals(run.submit(request("b")).finish().tokens("b"), tokensOf(solo(request("b"))));
});
