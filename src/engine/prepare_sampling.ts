import { failureOf } from "./failure.ts";
import type { SamplingBatch } from "./sampling_batch.ts";
import type { Sequence } from "./sequence.ts";
import type { StepPlan } from "./step_plan.ts";

/** Fills the sampler's call: one entry for each logits row that the plan's forward leaves. */
export function prepareSampling(sampling: SamplingBatch, plan: StepPlan): void {
  sampling.begin();
  for (const { sequence, outputs, isSampled } of plan.stepRows) {
    for (let i = Number(isSampled); i < outputs; i++) sampling.addDiscarded();
    if (isSampled) addOrFail(sampling, sequence);
  }
}

/** What a row asks of the host concerns that row alone: when it fails, its neighbours are drawn all the same. */
function addOrFail(sampling: SamplingBatch, sequence: Sequence): void {
  try {
    sampling.add(sequence);
  } catch (error) {
    sequence.outcome = { type: "failed", ...failureOf(error) };
    sampling.addDiscarded();
  }
}
