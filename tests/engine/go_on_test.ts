/** A second forward behind the one that is on its way: when there is one, and what becomes of rows that end in between. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { BackendError } from "../../src/engine/backend.ts";
import { type CoreLimits, EngineCore } from "../../src/engine/engine_core.ts";
import type { Offering } from "../../src/engine/drafter.ts";
import type { Sequence } from "../../src/engine/sequence.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import { FakeBackend, type FakeFaults } from "./fake_backend.ts";
import { BREAKING_TOKEN } from "./fake_draw.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { OracleDrafter } from "./oracle_drafter.ts";
import { runPlan } from "./planned_run.ts";
import { cachedTokens, checkTexts, prompt } from "./prefix_plans.ts";
import { CoreRun, finishOf, LIMITS, request, requestBodies, solo, tokensOf } from "./requests.ts";

function eagerRun(
  { faults, limits = {}, isRecurrent = false }: { faults?: FakeFaults; limits?: Partial<CoreLimits>; isRecurrent?: boolean } = {},
): { readonly backend: FakeBackend; readonly run: CoreRun } {
  const backend = new FakeBackend(faults);
  backend.isRecurrent = isRecurrent;
  const run = CoreRun.with(backend, limits);
  run.launchesNext = true;
  return { backend, run };
}

/** Ends with its token `index`, by that one alone. */
function stopped(id: string, index: number, promptIds: readonly number[] = [id.charCodeAt(0)]): ReturnType<typeof request> {
  const tokens = tokensOf(solo(request(id, { promptIds, maxTokens: 40 })));
  assert(!tokens.slice(0, index).includes(tokens[index]!));
  return request(id, { promptIds, maxTokens: 40, stopIds: [tokens[index]!] });
}

Deno.test("rows that decode go on without the host until one of them is at its last token", () => {
  const { backend, run } = eagerRun();
  run.submit(request("a", { maxTokens: 10 })).finish();
  assertEquals([backend.numGoOns, backend.forwards.length], [9, 10]);
  run.submit(request("b", { maxTokens: 6 }), request("c", { maxTokens: 9 })).finish();
  // Six tokens of both, where the last one of "b" is known to be its last, and three of "c" alone.
  assertEquals([backend.numGoOns, backend.forwards.length], [9 + 5 + 2, 10 + 9]);
  checkTexts(run, [request("a", { maxTokens: 10 }), request("b", { maxTokens: 6 }), request("c", { maxTokens: 9 })]);
});

Deno.test("penalties, bans, masks and logprobs see every token before, known late or not", () => {
  let numGoOns = 0;
  const arrivals = fc.record({ stepsBefore: fc.nat(12), cancelAfter: fc.constant(null) });
  fc.assert(
    fc.property(fc.array(fc.tuple(requestBodies, arrivals), { minLength: 1, maxLength: 8 }), (list) => {
      const { backend, run } = eagerRun();
      const requests = list.map(([{ sampling, ...body }, _], i) => request(`r${i}`, { ...body, maxTokens: 3 * body.maxTokens, sampling }));
      runPlan(run, list.map(([_, arrival]) => arrival), requests);
      for (const one of requests) {
        const [found, alone] = [run.answers.get(one.id), solo(one)];
        assertEquals(tokensOf(found), tokensOf(alone), one.id);
        assertEquals(found?.updates.flatMap(({ logprobs }) => logprobs), alone.updates.flatMap(({ logprobs }) => logprobs), one.id);
        assertEquals(finishOf(found), finishOf(alone), one.id);
      }
      numGoOns += backend.numGoOns;
    }),
    { numRuns: 60 },
  );
  assert(numGoOns > 200, `Only ${numGoOns} forwards went on by themselves`);
});

Deno.test("a row that ends with a forward behind it is told at once and leaves after that one; nobody else notices", () => {
  const { backend, run } = eagerRun({ limits: { maxBatch: 2 } });
  const [ends, stays, next] = [stopped("e", 4), request("s", { maxTokens: 20 }), request("n", { maxTokens: 12, promptIds: [7, 7] })];
  run.submit(ends, stays);
  while (finishOf(run.answers.get("e")) === null) run.step();
  assertEquals([run.tokens("e").length, run.core.scheduler.rows.numRows, run.core.flights.length], [5, 2, 1]);
  // Whoever asks now finds its place free.
  assertEquals(run.core.stats().rowsActive, 1);
  run.step();
  assertEquals([run.core.scheduler.rows.numRows, run.core.stats().stepRows], [1, 1]);
  run.submit(next).finish();
  checkTexts(run, [ends, stays, next]);
  assertEquals([finishOf(run.answers.get("e")), backend.clearedSlots], ["stop", []]);
});

Deno.test("a client that asks again after its answer is never told that the queue is full", () => {
  const { backend, run } = eagerRun({ limits: { maxBatch: 1, maxQueue: 0 } });
  let numSteps = 0;
  for (let i = 0; i < 20; i++) {
    const one = stopped(String.fromCharCode(65 + i), 1 + i % 3);
    run.submit(one);
    assertEquals(run.answers.get(one.id)?.failure, null);
    while (finishOf(run.answers.get(one.id)) === null) run.step();
    numSteps += run.tokens(one.id).length;
  }
  run.finish();
  assert(backend.numGoOns > 20, `${backend.numGoOns} forwards went on`);
  // Those that were made for nobody do not count.
  assertEquals([run.core.stats().steps, run.core.stats().stepRows], [numSteps, 0]);
});

for (const isRecurrent of [false, true]) {
  Deno.test(`what a ${isRecurrent ? "recurrent " : ""}row has computed is kept when it ends, and when a forward is behind it`, () => {
    const { backend, run } = eagerRun({ limits: { prefixCacheBytes: 1e6 }, isRecurrent });
    // The token that ends it is the last one of its second page.
    const first = stopped("first", 7, prompt(120));
    run.submit(first).finish();
    assert(backend.numGoOns > 0);
    const tokens = run.tokens("first");
    const again = request("again", { promptIds: [...first.promptIds, ...tokens, 9], maxTokens: 5 });
    run.submit(again).finish();
    assertEquals([tokens.length, cachedTokens(run, "again")], [8, 128]);
    checkTexts(run, [again]);
  });

  Deno.test(`a ${isRecurrent ? "recurrent " : ""}row that is cancelled with a forward behind it leaves nothing wrong in the prefix cache`, () => {
    for (let steps = 1; steps < 12; steps++) {
      const { run } = eagerRun({ limits: { prefixCacheBytes: 1e6 }, isRecurrent });
      const one = request("one", { promptIds: prompt(60), maxTokens: 30 });
      run.submit(one);
      for (let step = 0; step < steps; step++) run.step();
      run.core.cancel("one");
      run.finish();
      const all = [...one.promptIds, ...tokensOf(solo(one))];
      const again = request("again", { promptIds: all.slice(0, 75), maxTokens: 5 });
      run.submit(again).finish();
      checkTexts(run, [again]);
    }
  });
}

Deno.test("no forward goes on past what the host has to do between two steps", () => {
  const goOnsOf = (act: (run: CoreRun) => void, options: Parameters<typeof eagerRun>[0] = {}): number => {
    const { backend, run } = eagerRun(options);
    act(run);
    return backend.numGoOns;
  };
  // Somebody waits: a row that ends makes room at once.
  assertEquals(goOnsOf((run) => run.submit(request("a"), request("b", { maxTokens: 9 })).step(), { limits: { maxBatch: 1 } }), 0);
  // Prompts are not through yet.
  const long = request("long", { promptIds: prompt(60) });
  assertEquals(goOnsOf((run) => run.submit(request("a"), long).step()), 0);
  // A prompt is scored, of several tokens or of one.
  assertEquals(goOnsOf((run) => run.submit(request("a", { promptLogprobs: 0 })).step()), 0);
  assertEquals(goOnsOf((run) => run.submit(request("a", { promptIds: [4], promptLogprobs: 0 })).step()), 0);
  // Another prompt has taken the whole chunk.
  const whole = (id: string): GenerateRequest => request(id, { promptIds: prompt(16) });
  assertEquals(goOnsOf((run) => run.submit(whole("a"), whole("b")).step()), 0);
  // A page is full: 64 tokens are cached after the fifth step.
  const count = (maxTokens: number): number =>
    goOnsOf((run) => run.submit(request("a", { promptIds: prompt(60), maxTokens })).finish(), {
      limits: { prefixCacheBytes: 1e6, prefillChunk: 64 },
    });
  assertEquals([count(5), count(6), count(7)], [4, 4, 5]);
  // The rows want a larger cache: of 64 tokens, and of 128 then.
  assertEquals(goOnsOf((run) => run.submit(request("a", { promptIds: prompt(10), maxTokens: 100 })).finish()), 98);
});

/** Drafts for one row alone, when that has so many tokens. */
class DrafterOf extends OracleDrafter {
  constructor(readonly id: string, readonly numGenerated = 0) {
    super(3, () => null);
  }

  override offer(sequence: Sequence): Offering | null {
    return sequence.id === this.id && sequence.numGenerated >= this.numGenerated ? super.offer(sequence) : null;
  }
}

Deno.test("a row whose text begins to repeat drafts a step after it could", () => {
  const backend = new FakeBackend();
  const speculation = new Speculation([new DrafterOf("a", 5)], { isAdaptive: false });
  const run = new CoreRun(new EngineCore(backend, LIMITS, undefined, speculation));
  run.launchesNext = true;
  const one = request("a", { maxTokens: 14 });
  run.submit(one).finish();
  assertEquals(run.answers.get("a")?.updates.map(({ tokens }) => tokens.length), [1, 1, 1, 1, 1, 1, 4, 4]);
  checkTexts(run, [one]);
});

Deno.test("nothing goes on behind drafts that are being verified, whatever the drafter would offer next", () => {
  const offered = new Set<number>();
  class OnceDrafter extends OracleDrafter {
    override offer(sequence: Sequence): Offering | null {
      if (offered.has(sequence.numGenerated)) return null;
      offered.add(sequence.numGenerated);
      return super.offer(sequence);
    }
  }
  const backend = new FakeBackend();
  const speculation = new Speculation([new OnceDrafter(3, (_, position) => position % 2)], { isAdaptive: false });
  const run = new CoreRun(new EngineCore(backend, LIMITS, undefined, speculation));
  run.launchesNext = true;
  const one = request("a", { maxTokens: 20 });
  run.submit(one).finish();
  checkTexts(run, [one]);
  assert(backend.forwards.some((rows) => rows.some(({ outputs }) => outputs > 1)), "Nothing was drafted");
});

Deno.test("rows that draft are not passed over from their first token on, and where nobody does rows go on", () => {
  const backend = new FakeBackend();
  const speculation = new Speculation([new DrafterOf("drafts")], { isAdaptive: false });
  const run = new CoreRun(new EngineCore(backend, LIMITS, undefined, speculation));
  run.launchesNext = true;
  const [plain, drafts] = [request("plain", { promptIds: [150], maxTokens: 30 }), request("drafts", { maxTokens: 9 })];
  run.submit(plain);
  for (let steps = 0; steps < 5; steps++) run.step();
  // All but the step that may be the first one to draft.
  assertEquals(backend.numGoOns, 4);
  run.submit(drafts);
  while (finishOf(run.answers.get("drafts")) === null) run.step();
  // Its first token, and two rounds of three drafts and one more.
  assertEquals(run.answers.get("drafts")?.updates.map(({ tokens }) => tokens.length), [1, 4, 4]);
  assertEquals(backend.numGoOns, 4);
  run.finish();
  assert(backend.numGoOns > 15, `${backend.numGoOns} forwards went on`);
  checkTexts(run, [plain, drafts]);
});

for (const isShortage of [false, true]) {
  Deno.test(`a second forward that fails ${isShortage ? "for want of memory makes its rows start over" : "fails its rows"}: the cache may be half-way`, () => {
    const { backend, run } = eagerRun();
    const [ends, one, other] = [stopped("e", 3), request("one", { maxTokens: 14 }), request("other", { promptIds: [9], maxTokens: 14 })];
    run.submit(ends, one, other);
    while (run.tokens("e").length < 3) run.step();
    const { goOn } = backend;
    backend.goOn = (): void => {
      backend.goOn = goOn;
      for (const slot of backend.slots) slot.fill(-88);
      throw new BackendError("No second one", isShortage);
    };
    run.finish();
    // What was drawn before it is told, and who has ended with that is not concerned.
    assertEquals(finishOf(run.answers.get("e")), "stop");
    checkTexts(run, isShortage ? [ends, one, other] : [ends]);
    assertEquals(run.answers.get("one")?.failure?.message, isShortage ? undefined : "No second one");
    assertEquals(run.core.stats().preemptions, isShortage ? 2 : 0);
    const next = request("next", { promptIds: [4, 5], maxTokens: 4 });
    run.submit(next).finish();
    checkTexts(run, [next]);
  });
}

Deno.test("a row that breaks with a forward behind it fails alone, and its slot is wiped", () => {
  const { backend, run } = eagerRun();
  const good = request("good", { maxTokens: 14 });
  run.submit(good, request("broken", { promptIds: [1, BREAKING_TOKEN], maxTokens: 14 })).step();
  assertEquals(backend.numGoOns, 1);
  run.finish();
  assertEquals([run.answers.get("broken")?.failure?.code, run.tokens("broken")], ["row_broken", []]);
  assertEquals(backend.clearedSlots.length, 1);
  const next = request("next", { promptIds: [4, 5], maxTokens: 4 });
  run.submit(next).finish();
  checkTexts(run, [good, next]);
});

for (const isShortage of [false, true]) {
  Deno.test(`draws that fail ${isShortage ? "for want of memory " : ""}with a forward behind them take that one along, and what comes is right`, () => {
    const { backend, run } = eagerRun();
    const [one, other] = [request("one", { maxTokens: 14 }), request("other", { promptIds: [9], maxTokens: 14 })];
    run.submit(one, other);
    run.step();
    const { sample } = backend;
    backend.sample = (call) => {
      backend.sample = sample;
      sample.call(backend, call);
      throw new BackendError("No draw", isShortage);
    };
    run.step();
    assertEquals(run.core.flights.length, isShortage ? 1 : 0);
    run.finish();
    if (isShortage) checkTexts(run, [one, other]);
    else assertEquals(run.answers.get("one")?.failure?.message, "No draw");
    const next = request("next", { promptIds: [4, 5], maxTokens: 4 });
    run.submit(next).finish();
    checkTexts(run, [next]);
  });
}
