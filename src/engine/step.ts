import { advance } from "./advance.ts";
import type { EngineCore } from "./engine_core.ts";
import { failureOf } from "./failure.ts";
import type { KvRoom } from "./kv_room.ts";
import { prepareSampling } from "./prepare_sampling.ts";
import type { RowMove } from "./rows.ts";
import type { Sequence } from "./sequence.ts";
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
    } catch (error) {
      failRows(plan, error);
    }
    report.numStepRows = plan.numRows;
  }
  leave(core, report);
  return report;
}

/** Takes rows with an outcome out, of the queue too, and reports them. */
function leave(core: EngineCore, report: StepReport): void {
  for (const sequence of core.scheduler.leaveQueue()) reportOutcome(core, sequence, report);
  for (;;) {
    clearUnsound(core);
    const { left, moves } = core.scheduler.leaveRows();
    for (const sequence of left) {
      core.prefixes.leave(sequence);
      reportOutcome(core, sequence, report);
    }
    // A row whose KV could not follow it has lost it: it leaves too, and may move others.
    if (moves.filter((move) => !hasMoved(core, move)).length === 0) return;
  }
}

/** Before rows move: whoever moves into a hole overwrites it only as far as its own tokens go. */
function clearUnsound(core: EngineCore): void {
  for (const sequence of core.scheduler.rows.sequences) {
    if (sequence.outcome !== null && !sequence.hasSoundCache && sequence.slot < core.room.slots) core.backend.clear(sequence.slot);
  }
}

function hasMoved(core: EngineCore, { sequence, from, to, length }: RowMove): boolean {
  try {
    if (length > 0) core.backend.move(from, to, length);
    return true;
  } catch (error) {
    sequence.outcome ??= { type: "failed", ...failureOf(error) };
    return false;
  }
}

/** Finished rows have their last update already, unless they were cancelled. */
function reportOutcome(core: EngineCore, sequence: Sequence, report: StepReport): void {
  const { id, outcome } = sequence;
  if (outcome?.type === "failed") report.failures.push({ id, code: outcome.code, message: outcome.message });
  if (outcome?.type !== "finished" || outcome.reason !== "cancelled") return;
  report.updates.push({ id, tokens: [], logprobs: [], finishReason: "cancelled", timings: sequence.timings(core.nowMs()) });
}

function admit(core: EngineCore): void {
  while (core.scheduler.canAdmit()) {
    const sequence = core.scheduler.admit();
    sequence.admittedMs = core.nowMs();
    core.prefixes.join(sequence);
  }
}

/** A row whose pages could not be loaded leaves. */
function reusePrefixes(core: EngineCore, report: StepReport): void {
  const { sequences } = core.scheduler.rows;
  core.prefixes.load(sequences);
  if (sequences.some(({ outcome }) => outcome !== null)) leave(core, report);
}

/** Sizes the cache for the rows. When memory is short, only the rows that need more than there is fail. */
function makeRoom(core: EngineCore, report: StepReport): void {
  const { room, scheduler: { rows } } = core;
  const longest = rows.sequences.reduce((max, sequence) => Math.max(max, sequence.length), 0);
  if (core.speculation.maxDrafts > 0 && hasMadeRoom(room, rows.numRows, longest + core.speculation.maxDrafts)) return;
  try {
    if (room.needsGrowth(rows.numRows, longest)) room.grow(rows.numRows, longest);
    else room.shrinkWhenLoose(rows.numRows, longest);
  } catch (error) {
    const failure = failureOf(error);
    for (const sequence of rows.sequences) {
      const hasRoom = sequence.slot < room.slots && sequence.length <= room.capacity;
      if (!hasRoom) sequence.outcome ??= { type: "failed", ...failure };
    }
    leave(core, report);
  }
}

/** Makes room for drafts when the cache is too small for them; without it, rows draft less. */
function hasMadeRoom(room: KvRoom, numRows: number, longest: number): boolean {
  if (!room.needsGrowth(numRows, longest)) return false;
  try {
    room.grow(numRows, longest);
    return true;
  } catch {
    return false;
  }
}

function failRows(plan: StepPlan, error: unknown): void {
  const failure = failureOf(error);
  for (const { sequence } of plan.stepRows) sequence.outcome = { type: "failed", ...failure };
}
