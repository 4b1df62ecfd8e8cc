/** When the requests of an open load arrive, and how long they are: fixed by a seed, so that every server gets the same. */

export interface Arrival {
  /** After the start of the load. */
  readonly atMs: number;
  readonly numPromptTokens: number;
  readonly numAnswerTokens: number;
}

export interface ArrivalPlan {
  readonly ratePerSecond: number;
  readonly numRequests: number;
  readonly seed: number;
  /** Medians and limits of the lengths, whose logarithms are normal as those of recorded chats are. */
  readonly prompt: LengthLaw;
  readonly answer: LengthLaw;
}

export interface LengthLaw {
  readonly median: number;
  readonly sigma: number;
  readonly min: number;
  readonly max: number;
}

/**
 * A Poisson process: exponential gaps, stretched so that their sum is exactly `numRequests / ratePerSecond`; without that, runs of a few dozen
 * requests would differ in rate more than servers in speed.
 */
export function planArrivals({ ratePerSecond, numRequests, seed, prompt, answer }: ArrivalPlan): Arrival[] {
  const random = uniform(seed);
  const gaps = Array.from({ length: numRequests }, () => -Math.log(1 - random()));
  const stretchMs = 1000 * numRequests / ratePerSecond / gaps.reduce((sum, gap) => sum + gap, 0);
  let atMs = 0;
  return gaps.map((gap) => ({
    atMs: atMs += gap * stretchMs,
    numPromptTokens: drawLength(prompt, random),
    numAnswerTokens: drawLength(answer, random),
  }));
}

function drawLength({ median, sigma, min, max }: LengthLaw, random: () => number): number {
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return Math.max(min, Math.min(max, Math.round(median * Math.exp(sigma * normal))));
}

/** Numbers from 0 (included) to 1 (excluded) by a 32-bit counter hash: good enough for loads, and the same on every machine. */
export function uniform(seed: number): () => number {
  let counter = Math.imul(seed, 0x9e3779b1) >>> 0;
  return () => {
    counter = (counter + 0x6d2b79f5) >>> 0;
    let word = Math.imul(counter ^ (counter >>> 15), counter | 1);
    word ^= word + Math.imul(word ^ (word >>> 7), word | 61);
    return ((word ^ (word >>> 14)) >>> 0) / 2 ** 32;
  };
}
