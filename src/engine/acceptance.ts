import type { DraftKind } from "./messages.ts";

/** Before a row has drafted, one of two drafts counts as accepted: the first rounds find out. */
const PRIOR_ACCEPTED = 1;
const PRIOR_TESTED = 2;
/** What one tested draft leaves of the weight of those before: about the last dozen decide. */
const MEMORY = 0.92;
/** Steps without drafts after which a row tries again, at first and at most; twice as many after every try that failed. */
const MIN_PROBE_STEPS = 8;
const MAX_PROBE_STEPS = 64;

/** How well drafts have done in one row lately. */
export class Acceptance {
  #accepted = PRIOR_ACCEPTED;
  #tested = PRIOR_TESTED;
  #probeSteps = MIN_PROBE_STEPS;
  #numSkipped = 0;

  /** The chance that a draft is right when all before it in its round are. */
  get probability(): number {
    return this.#accepted / this.#tested;
  }

  /** The same as if one more had been right: what is hardly known is worth a try. */
  get hope(): number {
    return (this.#accepted + 1) / (this.#tested + 1);
  }

  /** A round's result. Drafts after the first wrong one were not tested. */
  observe(numDrafts: number, numAccepted: number): void {
    for (let i = 0; i < Math.min(numDrafts, numAccepted + 1); i++) {
      this.#accepted = MEMORY * this.#accepted + Number(i < numAccepted);
      this.#tested = MEMORY * this.#tested + 1;
    }
    this.#numSkipped = 0;
    this.#probeSteps = numAccepted > 0 ? MIN_PROBE_STEPS : Math.min(2 * this.#probeSteps, MAX_PROBE_STEPS);
  }

  /** The row had drafts to offer and none were worth it. @returns whether it is time to try one all the same. */
  skip(): boolean {
    return ++this.#numSkipped >= this.#probeSteps;
  }
}

/** The same for each drafter and each grade of its offers: what is said of good ones must not depend on how the poor ones do. */
export class GradedAcceptance {
  readonly #grades = new Map<string, Acceptance>();
  #current = new Acceptance();

  /** How drafts of this grade have done. */
  of(kind: DraftKind, grade: number): Acceptance {
    const key = `${kind} ${grade}`;
    const known = this.#grades.get(key) ?? new Acceptance();
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
