import type { RowTable } from "./rows.ts";
import type { StepPlan } from "./step_plan.ts";

/** Puts every row that generates into the step, with its one newest token and the drafts behind it. */
export class DecodeManager {
  schedule(rows: RowTable, plan: StepPlan): void {
    for (const sequence of rows.sequences) {
      if (sequence.isPrefilling) continue;
      const { numDrafts } = sequence;
      plan.add({ sequence, count: 1 + numDrafts, outputs: 1 + numDrafts, isSampled: true, numDrafts });
    }
  }
}
