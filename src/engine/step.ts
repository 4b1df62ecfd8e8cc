import { advance } from "./advance.ts";
import type { EngineCore } from "./engine_core.ts";
import { failureOf } from "./failure.ts";
import { leave } from "./leave.ts";
import { giveAllUp, hasRoomFor, isShortage, makeRoom } from "./make_room.ts";
import { prepareSampling } from "./prepare_sampling.ts";
import type { StepPlan } from "./step_plan.ts";
import type { StepReport } from "./step_report.ts";

/** A forward that the device computes, and whose rows have not been drawn yet. Until they are, no row may move and no cache may change. */
export interface Flight {
  readonly plan: StepPlan;
  readonly startMs: number;
}

/** The first half of a step: who left goes, who waits joins, and one forward starts for all rows. null: there is nothing to compute. */
export function launch(core: EngineCore, report: StepReport): Flight | null {
  leave(core, report);
  admit(core);
  makeRoom(core, report);
  reusePrefixes(core, report);
  const startMs = core.nowMs();
  const { sequences } = core.scheduler.rows;
  core.speculation.propose(sequences, core.room.capacity, core.nowMs);
  core.prefixes.save(sequences);
  const plan = core.scheduler.schedule(core.prefixes.limitChunk);
  if (plan.numRows === 0) return null;
  try {
    core.backend.forward(plan);
    // The device works; meanwhile the host prepares what the rows need of it.
    prepareSampling(core.sampling, plan);
    return { plan, startMs };
  } catch (error) {
    fail(core, plan, error, report);
    report.numStepRows = plan.numRows;
    leave(core, report);
    return null;
  }
}

/** The second half: one draw for all rows, and who finished goes. */
export function land(core: EngineCore, { plan, startMs }: Flight, report: StepReport): void {
  try {
    if (plan.numOutputs > 0) core.backend.sample(core.sampling.call);
    advance(core, plan, report);
    core.speculation.observe(plan, core.nowMs() - startMs);
    core.prefixes.saveLast(core.scheduler.rows.sequences);
    core.budget.passStep();
  } catch (error) {
    fail(core, plan, error, report);
  }
  report.numStepRows = plan.numRows;
  leave(core, report);
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

/** Ends what the step has not ended, or takes all rows back when it was memory that it wanted. */
function fail(core: EngineCore, plan: StepPlan, error: unknown, report: StepReport): void {
  if (isShortage(error)) giveAllUp(core, error, report);
  else for (const { sequence } of plan.stepRows) sequence.outcome = { type: "failed", ...failureOf(error) };
}
