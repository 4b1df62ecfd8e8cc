import type { EngineCore } from "./engine_core.ts";
import { failureOf } from "./failure.ts";
import type { RowMove } from "./rows.ts";
import type { Sequence } from "./sequence.ts";
import type { StepReport } from "./step_report.ts";

/** Takes rows with an outcome out, of the queue too, and reports them. */
export function leave(core: EngineCore, report: StepReport): void {
  for (const sequence of core.scheduler.leaveQueue()) reportOutcome(core, sequence, report);
  for (;;) {
    clearUnsound(core, core.scheduler.rows.sequences.filter(({ outcome }) => outcome !== null));
    const { numRows } = core.scheduler.rows;
    const { left, moves } = core.scheduler.leaveRows();
    for (const sequence of left) {
      core.prefixes.leave(sequence);
      reportOutcome(core, sequence, report);
    }
    // A row whose KV could not follow it has lost it: it leaves too, and may move others.
    if (!hasLostRows(core, moves, numRows)) return;
  }
}

/** Takes rows back into the queue; they are computed again when they get rows again. */
export function preempt(core: EngineCore, sequences: readonly Sequence[], report: StepReport): void {
  clearUnsound(core, sequences.filter(({ cachedLen }) => cachedLen > 0));
  for (const sequence of sequences) core.prefixes.leave(sequence);
  report.numPreemptions += sequences.length;
  const { numRows } = core.scheduler.rows;
  if (hasLostRows(core, core.scheduler.preempt(sequences), numRows)) leave(core, report);
}

/** Before rows move: whoever moves into a hole overwrites it only as far as its own tokens go. */
function clearUnsound(core: EngineCore, leaving: readonly Sequence[]): void {
  for (const sequence of leaving) {
    if (!sequence.hasSoundCache && sequence.slot < core.room.slots) core.backend.clear(sequence.slot);
  }
}

/** Lets the cache follow the rows, of which there were `numBefore`. @returns whether some have lost theirs; they have an outcome now. */
function hasLostRows(core: EngineCore, moves: readonly RowMove[], numBefore: number): boolean {
  let isFailed = false;
  for (const { sequence, from, to, length } of moves) {
    try {
      if (length > 0) core.backend.move(from, to, length);
      else if (to < core.room.slots) core.backend.release(to);
    } catch (error) {
      sequence.outcome ??= { type: "failed", ...failureOf(error) };
      isFailed = true;
    }
  }
  // Rows are always in the first slots: those behind them hold what nobody needs.
  for (let slot = core.scheduler.rows.numRows; slot < Math.min(numBefore, core.room.slots); slot++) core.backend.release(slot);
  return isFailed;
}

/** Finished rows have their last update already, unless they were cancelled. */
function reportOutcome(core: EngineCore, sequence: Sequence, report: StepReport): void {
  const { id, outcome } = sequence;
  if (outcome?.type === "failed") report.failures.push({ id, code: outcome.code, message: outcome.message });
  if (outcome?.type !== "finished" || outcome.reason !== "cancelled") return;
  report.updates.push({ id, tokens: [], logprobs: [], finishReason: "cancelled", timings: sequence.timings(core.nowMs()) });
}
