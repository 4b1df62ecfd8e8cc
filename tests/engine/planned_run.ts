import { assert } from "@std/assert";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import type { CoreRun } from "./requests.ts";

/** When a request comes, and when its client has enough of it. */
export interface Arrival {
  /** Steps from the request before it to this one. */
  readonly stepsBefore: number;
  /** Steps from its coming to its cancellation; null: it may end by itself. */
  readonly cancelAfter: number | null;
}

/**
 * Submits `requests[i]` as `arrivals[i]` says, and steps until the engine has no work left. Of three steps two launch the next one before
 * they end, so that requests come and leave in the middle of forwards and between them.
 * @param step in place of the run's own.
 */
export function runPlan(
  run: CoreRun,
  arrivals: readonly Arrival[],
  requests: readonly GenerateRequest[],
  step: () => void = () => run.step(),
): void {
  const cancels: { readonly id: string; steps: number }[] = [];
  let numSteps = 0;
  const stepAndCancel = (): void => {
    run.launchesNext = numSteps++ % 3 > 0;
    step();
    for (const cancel of cancels) if (cancel.steps-- === 0) run.core.cancel(cancel.id);
  };
  for (const [i, { stepsBefore, cancelAfter }] of arrivals.entries()) {
    for (let steps = 0; steps < stepsBefore; steps++) stepAndCancel();
    const one = requests[i]!;
    run.submit(one);
    if (cancelAfter !== null) cancels.push({ id: one.id, steps: cancelAfter });
  }
  for (let steps = 0; run.core.hasWork; steps++) {
    assert(steps < 20_000, "The engine does not come to an end");
    stepAndCancel();
  }
}
