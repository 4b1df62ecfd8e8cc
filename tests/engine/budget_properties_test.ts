/** Any requests within any budget: it is never exceeded, and nobody can tell from the text. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import { BudgetedBackend } from "./budgeted_backend.ts";
import { budgetFor, checkContents, runOn, TOKEN_BYTES } from "./budgeted_run.ts";
import { lies, OracleDrafter } from "./oracle_drafter.ts";
import { runPlan } from "./planned_run.ts";
import { type CoreRun, request, requestBodies } from "./requests.ts";
import { SparseBackend } from "./sparse_backend.ts";

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

function requestsOf({ list }: Plan): GenerateRequest[] {
  return list.map(({ body }, i) => request(`r${i}`, body));
}

/** Runs the plan within the backend's memory; `between` is called before every step. */
function runWithin(plan: Plan, backend: BudgetedBackend, between: (run: CoreRun) => void = () => {}): CoreRun {
  const { list, numPages, isRecurrent, hasDrafter, maxBatch, prefillChunk } = plan;
  backend.isRecurrent = isRecurrent;
  const speculation = hasDrafter ? new Speculation([new OracleDrafter(4, lies(0.3, list.length))], { isAdaptive: false }) : undefined;
  const run = runOn(backend, { maxBatch, prefillChunk, prefixCacheBytes: 64 * TOKEN_BYTES * numPages }, speculation);
  runPlan(run, list, requestsOf(plan), () => {
    between(run);
    run.step();
    run.core.prefixes.checkIntegrity();
  });
  assertEquals(run.core.scheduler.rows.numRows, 0);
  return run;
}

const kinds = [["a cache that takes memory for all its room", BudgetedBackend], ["a sparse cache", SparseBackend]] as const;

for (const [name, Backend] of kinds) {
  Deno.test(`${name}: the budget is never exceeded, and every request is told what it is told with all the memory there is`, () => {
    let numPreemptions = 0;
    fc.assert(
      fc.property(plans, (plan) => {
        const run = runWithin(plan, new Backend(budgetFor(plan.numTokens)));
        checkContents(run, requestsOf(plan));
        numPreemptions += run.core.stats().preemptions;
      }),
      { numRuns: 100 },
    );
    assert(numPreemptions > 30, `Only ${numPreemptions} rows gave way: the property is about little`);
  });

  Deno.test(`${name}: a budget that changes while rows run is kept from then on, and changes no text`, () => {
    fc.assert(
      fc.property(plans, fc.array(fc.tuple(fc.nat(12), fc.integer({ min: 320, max: 1200 })), { maxLength: 8 }), (plan, changes) => {
        const backend = new Backend(budgetFor(plan.numTokens));
        const waiting = [...changes];
        let numSteps = 0;
        const run = runWithin(plan, backend, (run) => {
          const [next] = waiting;
          if (next === undefined || numSteps++ < next[0]) return;
          waiting.shift();
          numSteps = 0;
          // What it held before may be more for as long as the call takes.
          backend.limitBytes = Infinity;
          run.limitMemory(budgetFor(next[1]));
          assertEquals([...run.answers.values()].map(({ failure }) => failure), [...run.answers.values()].map(() => null));
          backend.limitBytes = budgetFor(next[1]);
          assert(backend.heldBytes <= backend.limitBytes, `${backend.heldBytes} bytes are held after the call, not ${backend.limitBytes}`);
        });
        checkContents(run, requestsOf(plan));
      }),
      { numRuns: 60 },
    );
  });

  Deno.test(`${name}: memory that cannot be had, in a resize or within a step, costs time and no text`, () => {
    let numShortages = 0;
    const shortages = fc.array(fc.boolean(), { maxLength: 60 });
    fc.assert(
      fc.property(plans, shortages, fc.integer({ min: 320, max: 900 }), (plan, isShort, maxTokens) => {
        const backend = new Backend(Infinity, { maxTokens });
        let numForwards = 0;
        const run = runWithin(plan, backend, ({ core }) => {
          backend.isShort = () => {
            // What one row alone cannot have fails it.
            const isNow = core.scheduler.rows.numRows > 1 && isShort[numForwards++] === true;
            numShortages += Number(isNow);
            return isNow;
          };
        });
        checkContents(run, requestsOf(plan));
      }),
      { numRuns: 60 },
    );
    assert(numShortages > 50, `Only ${numShortages} steps were short`);
  });
}
