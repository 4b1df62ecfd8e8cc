import { advance } from "./advance.ts";
import type { EngineCore } from "./engine_core.ts";
import { failureOf } from "./failure.ts";
import { leave } from "./leave.ts";
import { giveAllUp, hasRoomFor, isShortage, makeRoom } from "./make_room.ts";
import { prepareSampling } from "./prepare_sampling.ts";
import type { StepPlan } from "./step_plan.ts";
import { StepReport } from "./step_report.ts";

/** One step: who left goes, who waits joins, one forward and one draw for all rows, who finished goes. */
export function step(core: EngineCore): StepReport {
  const report = new StepReport();
  leave(core, report);
  admit(core);
  makeRoom(core, report);
  reusePrefixes(core, report);
  const startMs = core.nowMs();
  const { sequences } = core.scheduler.rows;
  core.speculation.propose(sequences, core.room.capacity);
  core.prefixes.save(sequences);
  const plan = core.scheduler.schedule(core.prefixes.limitChunk);
  if (plan.numRows > 0) {
    try {
      core.backend.forward(plan);
      // The device works; meanwhile the host prepares what the rows need of it.
      prepareSampling(core.sampling, plan);
      if (plan.numOutputs > 0) core.backend.sample(core.sampling.call);
      advance(core, plan, report);
      core.speculation.observe(plan, core.nowMs() - startMs);
      core.prefixes.saveLast(sequences);
      core.budget.passStep();
    } catch (error) {
      if (isShortage(error)) giveAllUp(core, error, report);
      else failRows(plan, error);
    }
    report.numStepRows = plan.numRows;
  }
  leave(core, report);
  return report;
}

function admit(core: EngineCore): void {
  while (core.scheduler.canAdmit((next) => hasRoomFor(core, next))) {
    const sequence = core.scheduler.admit();
    sequence.admittedMs ??= core.nowMs();
    core.prefixes.join(sequence);
  }
}

/** A row whose pages could not be loaded leaves. */
function reusePrefixes(core: EngineCore, report: StepReport): void {
  const { sequences } = core.scheduler.rows;
  core.prefixes.load(sequences);
  if (sequences.some(({ outcome }) => outcome !== null)) leave(core, report);
}

function failRows(plan: StepPlan, error: unknown): void {
  const failure = failureOf(error);
  for (const { sequence } of plan.stepRows) sequence.outcome = { type: "failed", ...failure };
}
