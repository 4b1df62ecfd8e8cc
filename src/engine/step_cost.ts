/** Weight of a new time in the running average. */
const WEIGHT = 0.15;
/** The first times of a width are too long as often as not (buffers are made): the smallest of them counts. */
const NUM_FIRST = 3;
/** A time counts as at most so many times the average: a machine that was busy for a moment must not spoil a width for long. */
const MAX_RATIO = 2;
/** A width that was not seen for so many steps is forgotten: contexts have grown since, or it was measured in a bad moment. */
const MAX_AGE_STEPS = 400;

interface Entry {
  averageMs: number;
  numSeen: number;
  lastStep: number;
}

/** Running averages of step times by the number of tokens in the step. */
export class StepCost {
  readonly #entries = new Map<number, Entry>();
  #numSteps = 0;

  observe(numTokens: number, ms: number): void {
    this.#numSteps++;
    const entry = this.#entries.get(numTokens);
    if (entry === undefined || this.#isOld(entry)) {
      this.#entries.set(numTokens, { averageMs: ms, numSeen: 1, lastStep: this.#numSteps });
      return;
    }
    entry.averageMs = entry.numSeen < NUM_FIRST
      ? Math.min(entry.averageMs, ms)
      : entry.averageMs + WEIGHT * (Math.min(ms, MAX_RATIO * entry.averageMs) - entry.averageMs);
    entry.numSeen++;
    entry.lastStep = this.#numSteps;
  }

  /**
   * Milliseconds that a step of so many tokens takes: between the known widths in a straight line, beyond them like the nearest one, which
   * is what makes a width that nobody knows worth trying. A wider step is never taken to be the faster one. null when nothing is known.
   *
   * @param known one more width and its milliseconds that the caller knows.
   */
  estimate(numTokens: number, known: readonly [number, number] | null = null): number | null {
    let below = known !== null && known[0] <= numTokens ? known : null;
    let above: readonly [number, number] | null = null;
    for (const [width, entry] of this.#entries) {
      if (this.#isOld(entry)) continue;
      if (width <= numTokens && (below === null || width >= below[0])) below = [width, entry.averageMs];
      if (width >= numTokens && (above === null || entry.averageMs < above[1])) above = [width, entry.averageMs];
    }
    if (below === null || above === null) return below?.[1] ?? above?.[1] ?? null;
    if (below[1] >= above[1] || below[0] === above[0]) return above[1];
    return below[1] + (above[1] - below[1]) * (numTokens - below[0]) / (above[0] - below[0]);
  }

  #isOld(entry: Entry): boolean {
    return this.#numSteps - entry.lastStep > MAX_AGE_STEPS;
  }
}
