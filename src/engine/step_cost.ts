/** Weight of a new time in the running average. */
const WEIGHT = 0.15;
/** The first times of a width are too long as often as not (buffers are made): the smallest of them counts. */
const NUM_FIRST = 3;
/** A time counts as at most so many times the average: a machine that was busy for a moment must not spoil a width for long. */
const MAX_RATIO = 1.2;
/** A width that was not seen for so many steps is forgotten: contexts have grown since, or it was measured in a bad moment. */
const MAX_AGE_STEPS = 400;
/** The same for a width whose few times may all have been too long. */
const MAX_FIRST_AGE_STEPS = 32;

interface Entry {
  averageMs: number;
  numSeen: number;
  lastStep: number;
}

/** Tokens of a step, and the milliseconds that it takes. */
export type Point = readonly [numTokens: number, ms: number];

/** Running averages of step times by the number of tokens in the step. */
export class StepCost {
  readonly #entries = new Map<number, Entry>();
  /** What is known with one point more, until something is learned: a choice of drafts asks for the same many times. */
  #curve: { readonly known: Point | null; readonly points: readonly Point[] } | null = null;
  #numSteps = 0;

  /** Counts a step, whoever's: times age. */
  pass(): void {
    this.#numSteps++;
    this.#curve = null;
  }

  /** Nothing was seen lately. */
  get isEmpty(): boolean {
    for (const entry of this.#entries.values()) if (!this.#isOld(entry)) return false;
    return true;
  }

  observe(numTokens: number, ms: number): void {
    this.#curve = null;
    const entry = this.#entries.get(numTokens);
    const isFirst = entry !== undefined && entry.numSeen < NUM_FIRST;
    if (entry === undefined || (!isFirst && this.#isOld(entry))) {
      this.#entries.set(numTokens, { averageMs: ms, numSeen: 1, lastStep: this.#numSteps });
      return;
    }
    entry.averageMs = isFirst
      ? Math.min(entry.averageMs, ms)
      : entry.averageMs + WEIGHT * (Math.min(ms, MAX_RATIO * entry.averageMs) - entry.averageMs);
    entry.numSeen++;
    entry.lastStep = this.#numSteps;
  }

  /**
   * Milliseconds that a step of so many tokens takes: between the known widths in a straight line, beyond them as the known ones rise. A wider
   * step is never taken to be the faster one. null when nothing is known.
   *
   * @param known one more width and its milliseconds that the caller knows.
   */
  estimate(numTokens: number, known: Point | null = null): number | null {
    const points = this.#points(known);
    const [first, last] = [points[0], points.at(-1)];
    if (first === undefined || last === undefined) return null;
    if (numTokens <= first[0]) return first[1];
    const above = points.findIndex(([width]) => width >= numTokens);
    const [from, to] = above < 0 ? [first, last] : [points[above - 1] ?? first, points[above] ?? last];
    const slope = to[0] === from[0] ? 0 : (to[1] - from[1]) / (to[0] - from[0]);
    return to[1] + slope * (numTokens - to[0]);
  }

  /** What is known, by width, each time cut to the shortest one of a wider step. */
  #points(known: Point | null): readonly Point[] {
    const last = this.#curve;
    if (last !== null && last.known?.[0] === known?.[0] && last.known?.[1] === known?.[1]) return last.points;
    const points: [numTokens: number, ms: number][] = known === null ? [] : [[...known]];
    for (const [width, entry] of this.#entries) {
      if (width !== known?.[0] && !this.#isOld(entry)) points.push([width, entry.averageMs]);
    }
    points.sort(([a], [b]) => a - b);
    for (let i = points.length - 2; i >= 0; i--) points[i]![1] = Math.min(points[i]![1], points[i + 1]![1]);
    this.#curve = { known, points };
    return points;
  }

  #isOld(entry: Entry): boolean {
    return this.#numSteps - entry.lastStep > (entry.numSeen < NUM_FIRST ? MAX_FIRST_AGE_STEPS : MAX_AGE_STEPS);
  }
}
