/** What tests of the prefix cache share: prompts with common beginnings, random plans of them, and texts that must be those of rows alone. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { type CoreRun, finishOf, request, samplings, solo, tokensOf } from "./requests.ts";

export function prompt(length: number, seed = 1): number[] {
  return Array.from({ length }, (_, i) => (i * i * 7 + seed * i + 3) % 200);
}

export function cachedTokens(run: CoreRun, id: string): number {
  return run.answers.get(id)?.updates.find(({ cachedTokens }) => cachedTokens !== undefined)?.cachedTokens ?? 0;
}

export function checkTexts(run: CoreRun, requests: readonly GenerateRequest[]): void {
  for (const one of requests) assertEquals(run.tokens(one.id), tokensOf(solo(one)), one.id);
}

export const prefixPlans = fc.record({
  common: fc.constantFrom(0, 60, 64, 70, 130, 200),
  tail: fc.integer({ min: 1, max: 90 }),
  maxTokens: fc.integer({ min: 0, max: 80 }),
  sampling: samplings,
  promptLogprobs: fc.constantFrom(-1, -1, -1, 1),
  cacheSalt: fc.constantFrom("", "", "tenant"),
  cancelAfter: fc.constantFrom(-1, -1, 0, 3, 20),
  stepsBefore: fc.nat(20),
}, { noNullPrototype: true });

type PrefixPlan = typeof prefixPlans extends fc.Arbitrary<infer Plan> ? Plan : never;

export function plannedRequests(plans: readonly PrefixPlan[]): GenerateRequest[] {
  return plans.map(({ common, tail, maxTokens, sampling, promptLogprobs, cacheSalt }, i) =>
    request(`r${i}`, { promptIds: [...prompt(common), ...prompt(tail, i + 2)], maxTokens, sampling, promptLogprobs, cacheSalt })
  );
}

/**
 * Submits the requests as the plans say, each with steps behind it, and cancels between steps.
 * @param afterStep what else happens after a step.
 * @returns a step, for the rest of the run.
 */
export function submitPlanned(
  run: CoreRun,
  plans: readonly PrefixPlan[],
  requests: readonly GenerateRequest[],
  afterStep: (numSteps: number) => void = () => {},
): () => void {
  const cancels: { id: string; step: number }[] = [];
  let numSteps = 0;
  const step = (): void => {
    for (const { id } of cancels.filter((cancel) => cancel.step === numSteps)) run.core.cancel(id);
    run.launchesNext = numSteps % 3 > 0;
    run.step();
    run.core.prefixes.checkIntegrity();
    afterStep(numSteps++);
  };
  for (const [i, { cancelAfter, stepsBefore }] of plans.entries()) {
    run.submit(requests[i]!);
    if (cancelAfter >= 0) cancels.push({ id: `r${i}`, step: numSteps + cancelAfter });
    for (let n = 0; n < stepsBefore; n++) step();
  }
  return step;
}

/** Texts are those of rows alone; of cancelled ones the beginning. */
export function checkPlannedTexts(run: CoreRun, requests: readonly GenerateRequest[]): void {
  for (const one of requests) {
    const answer = run.answers.get(one.id);
    const alone = tokensOf(solo(one));
    const isCut = finishOf(answer) === "cancelled";
    assertEquals(tokensOf(answer), isCut ? alone.slice(0, tokensOf(answer).length) : alone, one.id);
  }
}
