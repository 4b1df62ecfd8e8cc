/** What the timings of one load come to. */
import { median } from "../../../src/cli/bench/report.ts";
import type { StreamTiming } from "../../../src/cli/bench/stream_client.ts";

/** A request is good when it meets both. */
export interface GoodputLimits {
  readonly ttftMs: number;
  /** Per answer token after the first. */
  readonly tpotMs: number;
}

/** Tokens of all answers per second of the load, prompts included in the time. */
export function tokensPerSecond(timings: readonly StreamTiming[], elapsedMs: number): number {
  return 1000 * timings.reduce((sum, timing) => sum + timing.numTokens, 0) / elapsedMs;
}

export function medianTtftMs(timings: readonly StreamTiming[]): number {
  return median(timings.map((timing) => timing.ttftMs));
}

/** Time per answer token after the first; 0 for an answer of one token. */
export function tpotMs({ totalMs, ttftMs, numTokens }: StreamTiming): number {
  return numTokens <= 1 ? 0 : (totalMs - ttftMs) / (numTokens - 1);
}

/** Good requests per second of the load. */
export function goodput(timings: readonly StreamTiming[], elapsedMs: number, limits: GoodputLimits): number {
  const numGood = timings.filter((timing) => timing.ttftMs <= limits.ttftMs && tpotMs(timing) <= limits.tpotMs).length;
  return 1000 * numGood / elapsedMs;
}

/** The longest silence of a stream between two pieces of text, looking only at those that end after `sinceMs` of its own clock. */
export function longestGapMs(arrivalsMs: readonly number[], sinceMs: number): number {
  let longest = 0;
  for (let i = 1; i < arrivalsMs.length; i++) {
    if (arrivalsMs[i]! >= sinceMs) longest = Math.max(longest, arrivalsMs[i]! - arrivalsMs[i - 1]!);
  }
  return longest;
}
