import type { DraftKind } from "./messages.ts";

/** Before anything has drafted, one of two drafts counts as accepted: the first rounds find out. */
const FIRST_CHANCE = 0.5;
/** What is expected before anything was seen weighs as much as so many tested drafts, and fades with each that is. */
const PRIOR_WEIGHT = 4;
/** What one tested draft leaves of the weight of those before: in a row about the last thirty decide, of all rows a hundred. */
const ROW_MEMORY = 0.97;
const SHARED_MEMORY = 0.99;
/** Steps without drafts after which a row tries again, at first and at most; twice as many after every try that failed. */
const MIN_PROBE_STEPS = 8;
const MAX_PROBE_STEPS = 64;

/** The share of right drafts, the latest weighing most. */
class Share {
  #accepted = 0;
  #tested = 0;
  #priorWeight = PRIOR_WEIGHT;

  constructor(readonly memory: number) {}

  observe(isRight: boolean): void {
    this.#accepted = this.memory * this.#accepted + Number(isRight);
    this.#tested = this.memory * this.#tested + 1;
    this.#priorWeight *= this.memory;
  }

  /** @param prior what to expect before anything was seen. @param numHoped drafts that count as right beside those that were tested. */
  mean(prior: number, numHoped = 0): number {
    return (this.#accepted + this.#priorWeight * prior + numHoped) / (this.#tested + this.#priorWeight + numHoped);
  }
}

/** How well drafts have done lately: in one row, or in all of them. */
export class Acceptance {
  /** The first draft of a round, and those behind a right one, which is rarely as likely. */
  readonly #first: Share;
  readonly #later: Share;
  #probeSteps: number;
  #numSkipped = 0;

  /** @param all what the drafts of all rows did, which is what a new row begins with; null: these are all. */
  constructor(readonly all: Acceptance | null = null) {
    const memory = all === null ? SHARED_MEMORY : ROW_MEMORY;
    this.#first = new Share(memory);
    this.#later = new Share(memory);
    this.#probeSteps = all === null ? MIN_PROBE_STEPS : all.#probeSteps;
  }

  /** The chance that the draft at `place` of a round, counted from 0, is right when all before it are. */
  chance(place: number): number {
    return this.#share(place).mean(this.#prior(place));
  }

  /** The same as if one more had been right: what is hardly known is worth a try. */
  hope(place: number): number {
    return this.#share(place).mean(this.#prior(place), 1);
  }

  /** A round's result. Drafts after the first wrong one were not tested. */
  observe(numDrafts: number, numAccepted: number): void {
    this.all?.observe(numDrafts, numAccepted);
    for (let i = 0; i < Math.min(numDrafts, numAccepted + 1); i++) this.#share(i).observe(i < numAccepted);
    this.#numSkipped = 0;
    this.#probeSteps = numAccepted > 0 ? MIN_PROBE_STEPS : Math.min(2 * this.#probeSteps, MAX_PROBE_STEPS);
  }

  /** The row had drafts to offer and none were worth it. Among many rows each tries less often: all of them pay for it, and all of them learn. */
  skip(numRows: number): void {
    this.#numSkipped += 1 / numRows;
    this.all?.skip(numRows);
  }

  /** It is time to try one all the same. */
  get isDue(): boolean {
    return this.#numSkipped >= this.#probeSteps;
  }

  #share(place: number): Share {
    return place === 0 ? this.#first : this.#later;
  }

  #prior(place: number): number {
    return this.all === null ? FIRST_CHANCE : this.all.chance(place);
  }
}

/** The same for each drafter and each grade of its offers: what is said of good ones must not depend on how the poor ones do. */
export class GradedAcceptance {
  readonly #grades = new Map<string, Acceptance>();
  #current = new Acceptance();

  /** @param all that of all rows, null when this is it. */
  constructor(readonly all: GradedAcceptance | null = null) {}

  /** How drafts of this grade have done. */
  of(kind: DraftKind, grade: number): Acceptance {
    const key = `${kind} ${grade}`;
    const known = this.#grades.get(key) ?? new Acceptance(this.all?.of(kind, grade) ?? null);
    this.#grades.set(key, known);
    return known;
  }

  /** The next round that is observed is one of this grade's. */
  enter(acceptance: Acceptance): void {
    this.#current = acceptance;
  }

  observe(numDrafts: number, numAccepted: number): void {
    this.#current.observe(numDrafts, numAccepted);
  }
}
