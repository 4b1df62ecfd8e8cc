import { failureOf } from "./failure.ts";
import type { SamplingBatch } from "./sampling_batch.ts";
import type { Sequence } from "./sequence.ts";
import type { StepPlan } from "./step_plan.ts";

/** Fills the sampler's call: one entry for each logits row that the plan's forward leaves. */
export function prepareSampling(sampling: SamplingBatch, plan: StepPlan): void {
  sampling.begin();
  for (const { sequence, outputs, isSampled, numDrafts } of plan.stepRows) {
    for (let i = isSampled ? 1 + numDrafts : 0; i < outputs; i++) sampling.addDiscarded();
    if (!isSampled) continue;
    // A row may have left since its forward was launched.
    if (sequence.outcome === null) addOrFail(sampling, sequence);
    else for (let i = 0; i <= numDrafts; i++) sampling.addDiscarded();
  }
}

/** What a row asks of the host concerns that row alone: when it fails, its neighbours are drawn all the same. */
function addOrFail(sampling: SamplingBatch, sequence: Sequence): void {
  const { drafts } = sequence;
  let numAdded = 0;
  try {
    sampling.add(sequence);
    numAdded++;
    // Every draw sees the row as it is when the drafts before it are right: position, penalties and bans.
    for (const draft of drafts) {
      sequence.append(draft);
      sampling.add(sequence);
      numAdded++;
    }
  } catch (error) {
    sequence.outcome = { type: "failed", ...failureOf(error) };
    for (; numAdded <= drafts.length; numAdded++) sampling.addDiscarded();
    return;
  }
  sequence.retract(drafts.length);
}
