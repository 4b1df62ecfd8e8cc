/** Rows within a budget of bytes: who gives way, who waits, and what clients see of it. */
import { assert, assertEquals } from "@std/assert";
import { ModelDrafter } from "../../src/engine/model_drafter.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import { BudgetedBackend } from "./budgeted_backend.ts";
import { budgetedRun, budgetFor, checkContents, runOn, TOKEN_BYTES } from "./budgeted_run.ts";
import { BREAKING_TOKEN, FAKE_VOCAB_SIZE } from "./fake_draw.ts";
import { FakeDrafterBackend } from "./fake_drafter_backend.ts";
import { request, solo, tokensOf } from "./requests.ts";

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
  run.limitMemory(budgetFor(1000));
  while ((run.core.scheduler.find("scored")?.cachedLen ?? 0) < 20) run.step();
  run.limitMemory(budgetFor(200));
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
  run.limitMemory(budgetFor(1100));
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
