import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import type { StreamTiming } from "../../../src/cli/bench/stream_client.ts";
import { type ArrivalPlan, planArrivals, uniform } from "../../../scripts/bench/peers/arrivals.ts";
import { FULL, longestRequest, makeLoads, QUICK } from "../../../scripts/bench/peers/loads.ts";
import { PeerResults, peersTable } from "../../../scripts/bench/peers/peers_table.ts";
import { isDue, rotate } from "../../../scripts/bench/peers/rounds.ts";
import { goodput, longestGapMs, medianTtftMs, tokensPerSecond, tpotMs } from "../../../scripts/bench/peers/summary.ts";

const PLAN: ArrivalPlan = {
  ratePerSecond: 4,
  numRequests: 2000,
  seed: 7,
  prompt: { median: 100, sigma: 0.8, min: 10, max: 400 },
  answer: { median: 30, sigma: 0.5, min: 4, max: 60 },
};

function timing(ttftMs: number, totalMs: number, numTokens: number): StreamTiming {
  return { ttftMs, totalMs, numTokens, arrivalsMs: [ttftMs, totalMs] };
}

Deno.test("arrivals keep the rate exactly, and their gaps are those of a Poisson process", () => {
  const arrivals = planArrivals(PLAN);
  assertAlmostEquals(arrivals.at(-1)!.atMs, 1000 * PLAN.numRequests / PLAN.ratePerSecond, 1e-6);
  const gaps = arrivals.map(({ atMs }, i) => atMs - (arrivals[i - 1]?.atMs ?? 0));
  assert(gaps.every((gap) => gap >= 0));
  // Exponential gaps have a deviation of their mean, and 1/e of them are longer than it.
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
  const deviation = Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length);
  assertAlmostEquals(deviation / mean, 1, 0.08);
  assertAlmostEquals(gaps.filter((gap) => gap > mean).length / gaps.length, Math.exp(-1), 0.03);
});

Deno.test("lengths have the wanted medians and stay within their limits, and a seed fixes all of it", () => {
  const arrivals = planArrivals(PLAN);
  const prompts = arrivals.map(({ numPromptTokens }) => numPromptTokens).sort((a, b) => a - b);
  assertAlmostEquals(prompts[PLAN.numRequests / 2]!, 100, 6);
  assert(prompts[0]! >= 10 && prompts.at(-1)! === 400);
  assert(arrivals.every(({ numAnswerTokens }) => numAnswerTokens >= 4 && numAnswerTokens <= 60 && Number.isInteger(numAnswerTokens)));
  assertEquals(planArrivals(PLAN), arrivals);
  assert(planArrivals({ ...PLAN, seed: 8 })[0]!.atMs !== arrivals[0]!.atMs);
});

Deno.test("uniform numbers fill the unit interval evenly", () => {
  const random = uniform(3);
  const counts = new Array(10).fill(0);
  for (let i = 0; i < 10_000; i++) counts[Math.floor(10 * random())]++;
  assert(counts.every((count) => Math.abs(count - 1000) < 120), `counts are ${counts}`);
});

Deno.test("rates count all tokens over the whole time, prompts included", () => {
  const timings = [timing(100, 600, 6), timing(300, 1000, 14)];
  assertEquals(tokensPerSecond(timings, 2000), 10);
  assertEquals(medianTtftMs(timings), 200);
  assertEquals(timings.map(tpotMs), [100, 700 / 13]);
  assertEquals(tpotMs(timing(100, 100, 1)), 0);
});

Deno.test("a request is good only when both limits hold", () => {
  const timings = [timing(100, 600, 6), timing(2001, 2100, 6), timing(100, 2000, 6), timing(2000, 2500, 6)];
  assertEquals(goodput(timings, 4000, { ttftMs: 2000, tpotMs: 100 }), 0.5);
});

Deno.test("a gap counts when it ends after the given time, whenever it began", () => {
  assertEquals(longestGapMs([0, 900, 1000, 1400, 1450], 1000), 400);
  assertEquals(longestGapMs([0, 900, 1000, 1400, 1450], 899), 900);
  assertEquals(longestGapMs([0, 10], 1000), 0);
});

Deno.test("the table shows medians over rounds, ratios to the first server, and faults as notes", () => {
  const results = new PeerResults();
  for (const rate of [10, 30, 20]) results.add("ours", "a", { values: { rate } });
  results.add("other", "a", { values: { rate: 8 } });
  results.add("other", "a", { fault: "went away" });
  results.add("third", "a", { fault: "refused" });
  results.add("third", "b", { fault: "refused" });
  results.add("ours", "b", { values: { ms: 5 } });
  const measures = [{ key: "rate", title: "tokens/s", decimals: 1 }, { key: "ms", title: "time", decimals: 0 }];
  const loads = [{ key: "a", title: "A", measures: [measures[0]!] }, { key: "b", title: "B", measures: [measures[1]!, measures[0]!] }];
  assertEquals(
    peersTable(["ours", "other", "third"], loads, results),
    [
      "| load | measure | ours | other | third |",
      "| --- | --- | ---: | ---: | ---: |",
      "| A | tokens/s | 20.0 | 8.0 (2.50×) | – [1] |",
      "| B | time | 5 |  | – [1] |",
      "|  | tokens/s |  |  | – [1] |",
      "",
      "1. third: refused",
    ].join("\n"),
  );
});

Deno.test("every round starts with another server, long loads run once, and a server's own loads on no other", () => {
  assertEquals([rotate([1, 2, 3], 0), rotate([1, 2, 3], 1), rotate([1, 2, 3], 5), rotate([], 2)], [[1, 2, 3], [2, 3, 1], [3, 1, 2], []]);
  const dueKeys = (server: string, round: number): string[] =>
    makeLoads(FULL).filter((load) => isDue(load, server, round)).map(({ key }) => key);
  assertEquals(dueKeys("ours", 0), makeLoads(FULL).map(({ key }) => key));
  assertEquals(dueKeys("mlx-lm", 1), ["one", "greedy1", "greedy5", "greedy8", "greedy16", "seeded8", "poisson1", "shared", "stall2048"]);
  assertEquals(dueKeys("mlx-lm", 0).filter((key) => key.startsWith("speculation")), []);
});

Deno.test("loads have keys of their own, and the longest request holds every prompt with its answer", () => {
  for (const sizes of [FULL, QUICK]) {
    const keys = makeLoads(sizes).map(({ key }) => key);
    assertEquals(new Set(keys).size, keys.length);
    assert(longestRequest(sizes) >= sizes.sharedPrefix + sizes.prompt / 2 + 8);
    assert(longestRequest(sizes) >= 6 * sizes.prompt);
  }
});
