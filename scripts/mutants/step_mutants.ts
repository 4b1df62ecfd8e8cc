import type { Mutant } from "./mutant.ts";

/** Faults of forwards that are on their way: what is forgotten, what is changed under them, and when no second one may be behind the first. */
export const STEP_MUTANTS: readonly Mutant[] = [
  { file: "src/engine/engine_core.ts", find: "while (this.flights.length > 0) land(this, report);", replace: "" },
  { file: "src/engine/engine_core.ts", find: "this.backend.sample(call ?? discardAll(this.sampling, plan.numOutputs));", replace: "" },
  { file: "src/engine/step.ts", find: "scheduler.numWaiting === 0 && ", replace: "" },
  { file: "src/engine/step.ts", find: "stepRows.length === numRows &&", replace: "" },
  { file: "src/engine/step.ts", find: "sequence.length + 1 < sequence.maxLength", replace: "sequence.length < sequence.maxLength" },
  { file: "src/engine/step.ts", find: "isSampled && outputs === 1", replace: "isSampled" },
  { file: "src/engine/step.ts", find: "hasRoomToGoOn(core) && ", replace: "" },
  { file: "src/engine/step.ts", find: "prefixes.isBetweenPages(stepRows) && ", replace: "" },
  { file: "src/engine/step.ts", find: "    core.dropFlights();", replace: "" },
  {
    file: "src/engine/step.ts",
    find: "if (next === undefined) leave(core, report);",
    replace: "leave(core, report); if (next === undefined) return;",
  },
  { file: "src/engine/step.ts", find: "if (flight.fault !== null) throw flight.fault.error;", replace: "" },
  { file: "src/engine/step.ts", find: "!sequence.needsScores && ", replace: "" },
  { file: "src/engine/step.ts", find: "stepRows.filter(({ sequence }) => sequence.outcome === null).length", replace: "stepRows.length" },
  { file: "src/engine/scheduler.ts", find: "this.limits.maxBatch - this.numActive)", replace: "this.limits.maxBatch - this.rows.numRows)" },
  {
    file: "src/engine/step_plan.ts",
    find: "[sequence.slot, sequence.cachedLen + count, 1,",
    replace: "[sequence.slot, sequence.cachedLen, 1,",
  },
  { file: "src/engine/advance.ts", find: "Math.min(count - numDrafts, sequence.numPending)", replace: "count - numDrafts" },
  { file: "src/engine/speculation.ts", find: "|| sequences.some(({ isPrefilling }) => isPrefilling)", replace: "" },
  { file: "src/engine/speculation.ts", find: "every(({ numDrafts }) => numDrafts === 0)", replace: "every(() => true)" },
  { file: "ffi/src/sampling/stream_sampler.c", find: "? draws.sampled[i].token : 0;", replace: "? draws.sampled[i].token : -1;" },
  {
    file: "ffi/src/output.c",
    find: "op_slice(s, output->draws, 0, 0, output_num_drawn(output))",
    replace: "op_slice(s, output->draws, 0, 1, output_num_drawn(output) + 1)",
  },
].map((fault) => ({
  ...fault,
  test: fault.file.startsWith("ffi")
    ? "ffi/tests/model_test.c"
    : fault.file.includes("engine_core")
    ? "tests/engine/engine_server_test.ts"
    : "tests/engine/go_on_test.ts",
}));
