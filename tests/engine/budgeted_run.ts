/** Runs of an engine within a budget of bytes, over a backend that counts them. */
import { assertEquals } from "@std/assert";
import { type CoreLimits, EngineCore } from "../../src/engine/engine_core.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import type { Speculation } from "../../src/engine/speculation.ts";
import { BudgetedBackend } from "./budgeted_backend.ts";
import { FakeBackend } from "./fake_backend.ts";
import { contentOf } from "./oracle_drafter.ts";
import { CoreRun, finishOf, LIMITS } from "./requests.ts";

const WEIGHT_BYTES = 1000;
/** Of the fake model, as `WEIGHT_BYTES` are. */
export const TOKEN_BYTES = 8;

/** A budget for a cache of so many tokens, all slots together. */
export function budgetFor(numTokens: number): number {
  return WEIGHT_BYTES + TOKEN_BYTES * numTokens;
}

export function budgetedRun(
  numTokens: number,
  limits: Partial<CoreLimits> = {},
  speculation?: Speculation,
): { run: CoreRun; backend: BudgetedBackend } {
  const backend = new BudgetedBackend(budgetFor(numTokens));
  return { backend, run: runOn(backend, limits, speculation) };
}

export function runOn(backend: BudgetedBackend, limits: Partial<CoreLimits> = {}, speculation?: Speculation): CoreRun {
  const all = { ...LIMITS, maxBatch: 8, memoryBytes: backend.limitBytes, ...limits };
  return new CoreRun(new EngineCore(backend, all, undefined, speculation));
}

export function checkContents(run: CoreRun, requests: readonly GenerateRequest[]): void {
  for (const one of requests) {
    const alone = CoreRun.with(new FakeBackend()).submit(one).finish();
    if (finishOf(run.answers.get(one.id)) !== "cancelled") assertEquals(contentOf(run, one), contentOf(alone, one));
    else assertEquals(run.tokens(one.id), alone.tokens(one.id).slice(0, run.tokens(one.id).length));
  }
}
