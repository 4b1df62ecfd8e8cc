import type { Drafter } from "./drafter.ts";
import { StepCost } from "./step_cost.ts";

/** Drafts that one row gets from one drafter. */
export interface DraftChoice {
  readonly drafter: Drafter;
  readonly numDrafts: number;
}

/** What drafters took to propose: the most drafts that one row got, and milliseconds. */
export interface Drafted {
  readonly numDrafts: number;
  readonly ms: number;
}

/** A step that has been made. */
export interface SpentStep {
  readonly numRows: number;
  readonly numTokens: number;
  /** Of those that proposed anything. */
  readonly drafted: ReadonlyMap<Drafter, Drafted>;
  /** All of it, drafting too. */
  readonly elapsedMs: number;
}

/**
 * What a step costs: plain, by its rows; with drafts, what verifying costs by its tokens, whoever's drafts they are, and what each drafter
 * takes for as many drafts as its longest row has.
 */
export class RoundCost {
  readonly #plain = new StepCost();
  readonly #verifying = new StepCost();
  readonly #drafting: ReadonlyMap<Drafter, StepCost>;

  constructor(drafters: readonly Drafter[]) {
    this.#drafting = new Map(drafters.map((drafter) => [drafter, new StepCost()]));
  }

  /** Counts a step, whoever's: times age. */
  pass(): void {
    for (const cost of [this.#plain, this.#verifying, ...this.#drafting.values()]) cost.pass();
  }

  observe({ numRows, numTokens, drafted, elapsedMs }: SpentStep): void {
    let restMs = elapsedMs;
    for (const [drafter, { numDrafts, ms }] of drafted) {
      this.#drafting.get(drafter)?.observe(numDrafts, ms);
      restMs -= ms;
    }
    (numTokens > numRows ? this.#verifying : this.#plain).observe(numTokens, restMs);
  }

  /** Plain steps have been seen: there is something to compare with. */
  get isKnown(): boolean {
    return !this.#plain.isEmpty;
  }

  /** Rounds of this drafter have been seen. */
  knows(drafter: Drafter): boolean {
    return !this.#verifying.isEmpty && this.#drafting.get(drafter)?.isEmpty === false;
  }

  /** Milliseconds of a step in which `numRows` rows decode. */
  estimate(numRows: number, choices: readonly DraftChoice[]): number {
    const numDrafts = choices.reduce((sum, choice) => sum + choice.numDrafts, 0);
    let ms = this.#withoutDrafting(numRows, numDrafts);
    if (numDrafts === 0) return ms;
    for (const [drafter, cost] of this.#drafting) ms += cost.estimate(longest(choices, drafter), [0, 0]) ?? 0;
    return ms;
  }

  #withoutDrafting(numRows: number, numDrafts: number): number {
    const plainMs = this.#plain.estimate(numRows) ?? 1;
    if (numDrafts === 0) return plainMs;
    return Math.max(plainMs, this.#verifying.estimate(numRows + numDrafts, [numRows, plainMs]) ?? plainMs);
  }
}

function longest(choices: readonly DraftChoice[], drafter: Drafter): number {
  return choices.reduce((most, choice) => choice.drafter === drafter ? Math.max(most, choice.numDrafts) : most, 0);
}
