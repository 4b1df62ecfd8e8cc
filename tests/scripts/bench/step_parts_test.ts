import { assert, assertAlmostEquals, assertEquals, assertStringIncludes } from "@std/assert";
import { partsOf, stepTable } from "../../../scripts/bench/step/step_parts.ts";
import { runCore } from "../../../scripts/bench/step/step_runs.ts";
import { ThreadClock } from "../../../src/native/thread_clock.ts";
import { TimedBackend } from "../../../scripts/bench/step/timed_backend.ts";
import { GREEDY } from "../../../src/engine/sampling.ts";
import { FakeBackend } from "../../engine/fake_backend.ts";

const TIMES = { coreMs: 30, launchMs: 4, backendMs: 29, drawMs: 3, workerMs: 31, servedMs: 40 };

Deno.test("the parts of a step add up to the step", () => {
  const parts = partsOf(TIMES);
  assertEquals(parts, { hostMs: 1, launchMs: 4, deviceMs: 22, drawMs: 3, messagesMs: 1, httpMs: 9, totalMs: 40 });
  const { totalMs, ...others } = parts;
  assertAlmostEquals(Object.values(others).reduce((sum, ms) => sum + ms, 0), totalMs);
});

Deno.test("the table shows milliseconds, shares and the rate of all rows", () => {
  const table = stepTable([{ numRows: 8, mode: "greedy", parts: partsOf(TIMES) }]);
  assertStringIncludes(
    table,
    "| 8 | greedy | 1.00 (2.5 %) | 4.00 (10.0 %) | 22.00 (55.0 %) | 3.00 (7.5 %) | 1.00 (2.5 %) | 9.00 (22.5 %) | 40.00 | 200.0 |",
  );
});

Deno.test("only steps in which all rows decode are timed, split or not", () => {
  using clock = new ThreadClock();
  const backend = new TimedBackend(new FakeBackend(), clock);
  const requests = [6, 4].map((maxTokens, row) => ({
    id: `r${row}`,
    promptIds: Int32Array.of(1, 2, 3),
    sampling: { ...GREEDY, seed: BigInt(row) },
    maxTokens,
    stopIds: [],
    promptLogprobs: -1,
  }));
  for (const isSplit of [false, true]) {
    backend.isSplit = isSplit;
    const { coreMs, launchMs, backendMs, sampleMs } = runCore(backend, requests);
    // The prompt's step gives both their first token, and the shorter row ends after three more.
    assertEquals([coreMs, launchMs, backendMs, sampleMs].map((times) => times.length), [3, 3, 3, 3]);
    // Forward and draw are parts of the step, and the draw is one of both.
    assert(coreMs.every((ms, i) => ms >= backendMs[i]! && backendMs[i]! >= sampleMs[i]!));
  }
});

Deno.test("a thread's clock counts what it computes, not what it waits", async () => {
  using clock = new ThreadClock();
  const startMs = clock.nowMs();
  await new Promise((resolve) => setTimeout(resolve, 60));
  const waitedMs = clock.nowMs() - startMs;
  assert(waitedMs < 30, `${waitedMs} ms while waiting`);
  // The clock itself ends the loop: however busy the machine is, the thread has computed that long.
  const endMs = performance.now() + 10;
  while (performance.now() < endMs || clock.nowMs() - startMs < waitedMs + 5);
  assert(clock.nowMs() - startMs - waitedMs >= 5);
});
