import { advance } from "./advance.ts";
import type { EngineCore } from "./engine_core.ts";
import { failureOf } from "./failure.ts";
import { leave } from "./leave.ts";
import { giveAllUp, hasRoomFor, hasRoomToGoOn, isShortage, makeRoom } from "./make_room.ts";
import { prepareSampling } from "./prepare_sampling.ts";
import type { SampleCall } from "../native/step_output.ts";
import type { StepPlan } from "./step_plan.ts";
import type { StepReport } from "./step_report.ts";

/**
 * A forward that the device computes, and whose rows have not been drawn yet. Until they are, no row may move and no cache may change. There are
 * two of them at most: the second one goes on with what the first one draws.
 */
export interface Flight {
  readonly plan: StepPlan;
  /** When nothing was before it any more. */
  startMs: number;
  /** How its rows are drawn. Known when the tokens before are: a row's penalties count them. */
  call: SampleCall | null;
  /** Why there is no forward behind it. What the cache holds is not known then. */
  fault: { readonly error: unknown } | null;
}

/** The first half of a step: who left goes, who waits joins, and one forward starts for all rows, unless there is nothing to compute. */
export function launch(core: EngineCore, report: StepReport): void {
  leave(core, report);
  admit(core);
  makeRoom(core, report);
  reusePrefixes(core, report);
  const startMs = core.nowMs();
  const { sequences } = core.scheduler.rows;
  core.speculation.propose(sequences, core.room.capacity, core.nowMs);
  core.prefixes.save(sequences);
  const plan = core.scheduler.schedule(core.prefixes.limitChunk);
  if (plan.numRows === 0) return;
  const flight: Flight = { plan, startMs, call: null, fault: null };
  try {
    core.backend.forward(plan);
    // The device works; meanwhile the host prepares what the rows need of it.
    prepare(core, flight);
    core.flights.push(flight);
  } catch (error) {
    fail(core, plan, error, report);
    report.numStepRows = plan.numRows;
    leave(core, report);
  }
}

/**
 * Launches a second forward behind the one that is on its way, where nothing of what that one draws can change who is in it: the device goes on
 * without the host (elsewhere: asynchronous or overlap scheduling). Rows that end there are in it for nothing, and leave after it. Who may
 * draft, waits, has a page to be kept or needs another size of the cache is served between two steps: then there is no second forward.
 */
export function goOn(core: EngineCore): void {
  const [flight, next] = core.flights;
  if (flight === undefined || next !== undefined || !mayGoOn(core, flight.plan)) return;
  const call = prepare(core, flight);
  if (flight.plan.stepRows.some(({ sequence }) => sequence.outcome !== null)) return;
  const plan = core.scheduler.scheduleAfter(flight.plan);
  try {
    core.backend.goOn(call, plan);
    core.flights.push({ plan, startMs: NaN, call: null, fault: null });
  } catch (error) {
    flight.fault = { error };
  }
}

function mayGoOn(core: EngineCore, { stepRows }: StepPlan): boolean {
  const { backend, prefixes, room, scheduler, speculation } = core;
  const { sequences, numRows } = scheduler.rows;
  return backend.canGoOn && scheduler.numWaiting === 0 && stepRows.length === numRows &&
    stepRows.every(({ sequence, outputs, isSampled }) =>
      isSampled && outputs === 1 && sequence.outcome === null && !sequence.needsScores && sequence.length + 1 < sequence.maxLength
    ) && hasRoomToGoOn(core) && prefixes.isBetweenPages(stepRows) && speculation.canGoOn(sequences, room.capacity);
}

/** The second half: one draw for all rows, and who finished goes, unless there is a forward with them behind this one. */
export function land(core: EngineCore, report: StepReport): void {
  const flight = core.flights.shift();
  if (flight === undefined) return;
  const { plan } = flight;
  // A forward that has nobody left is no step.
  report.numStepRows = plan.stepRows.filter(({ sequence }) => sequence.outcome === null).length;
  try {
    const call = prepare(core, flight);
    if (plan.numOutputs > 0) core.backend.sample(call);
    advance(core, plan, call.sampled, report);
    core.speculation.observe(plan, core.nowMs() - flight.startMs);
    if (flight.fault !== null) throw flight.fault.error;
    core.prefixes.saveLast(core.scheduler.rows.sequences);
    core.budget.passStep();
  } catch (error) {
    core.dropFlights();
    fail(core, plan, error, report);
  }
  const [next] = core.flights;
  if (next === undefined) leave(core, report);
  else next.startMs = core.nowMs();
}

function prepare(core: EngineCore, flight: Flight): SampleCall {
  if (flight.call === null) {
    prepareSampling(core.sampling, flight.plan);
    flight.call = core.sampling.call;
  }
  return flight.call;
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
  else for (const { sequence } of plan.stepRows) sequence.outcome ??= { type: "failed", ...failureOf(error) };
}
