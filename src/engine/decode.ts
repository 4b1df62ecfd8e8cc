import type { RowTable } from "./rows.ts";
import type { StepPlan } from "./step_plan.ts";

/** Puts every row that generates into the step, with its one newest token. */
export class DecodeManager {
  schedule(rows: RowTable, plan: StepPlan): void {
    for (const sequence of rows.sequences) {
      if (!sequence.isPrefilling) plan.add({ sequence, count: 1, outputs: 1, isSampled: true });
    }
  }
}
