import { VERIFY_MAX_TOKENS } from "../native/structs.ts";
import { type Acceptance, GradedAcceptance } from "./acceptance.ts";
import { chooseOffer } from "./choose_offer.ts";
import { chooseDraftLengths, MIN_GAIN } from "./draft_lengths.ts";
import type { Drafter, DraftWish } from "./drafter.ts";
import type { DraftFailures, DraftKind } from "./messages.ts";
import { RowStates } from "./row_states.ts";
import type { RowColumn } from "./rows.ts";
import type { Sequence } from "./sequence.ts";
import { StepCost } from "./step_cost.ts";
import type { StepPlan } from "./step_plan.ts";

/** Drafts of a row that is tried for the first time, or again after a while without. */
const PROBE_DRAFTS = 2;

export interface SpeculationSettings {
  /** false: every row drafts as much as it can in every step. For tests. */
  readonly isAdaptive: boolean;
  /** Tokens of a step with drafts, at most. @default no limit */
  readonly maxStepTokens?: number;
  /** Tokens of a row with drafts in one step, at most. @default no limit */
  readonly maxRowTokens?: number;
}

interface Candidate {
  readonly drafter: Drafter;
  readonly sequence: Sequence;
  readonly acceptance: Acceptance;
  readonly maxDrafts: number;
}

/**
 * Decides before every step how many tokens each row drafts, and has them drafted. The step then verifies them all in its one forward; the
 * text stays that of plain decoding, whatever is decided here.
 */
export class Speculation {
  readonly columns: readonly RowColumn[];
  readonly #acceptances = new RowStates("acceptance", () => new GradedAcceptance());
  readonly #plainCost = new StepCost();
  /** What steps with drafts cost, by the dearest drafter in them. */
  readonly #roundCosts: ReadonlyMap<Drafter, StepCost>;
  readonly #maxRowTokens: number;
  /** The dearest drafter of the step that is being made. */
  #roundDrafter: Drafter | undefined;

  /** @param drafters those that cost more first. Requests that name none are drafted for by whichever does best. */
  constructor(readonly drafters: readonly Drafter[], readonly settings: SpeculationSettings) {
    this.#maxRowTokens = Math.min(settings.maxRowTokens ?? Infinity, VERIFY_MAX_TOKENS);
    this.#roundCosts = new Map(drafters.map((drafter) => [drafter, new StepCost()]));
    this.columns = drafters.length === 0 ? [] : [this.#acceptances, ...drafters.flatMap(({ columns }) => columns)];
  }

  get kinds(): readonly DraftKind[] {
    return this.drafters.map(({ kind }) => kind);
  }

  /** Of all drafters; null while there are none. */
  get failures(): DraftFailures | null {
    const known = this.drafters.flatMap(({ failures }) => failures ?? []);
    const last = known.at(-1);
    return last === undefined ? null : { count: known.reduce((sum, { count }) => sum + count, 0), message: last.message };
  }

  /** Drafts of one row in one round, at most; 0 without drafters. */
  get maxDrafts(): number {
    const most = Math.max(0, ...this.drafters.map(({ maxDrafts }) => maxDrafts));
    return Math.min(most, this.#maxRowTokens - 1);
  }

  /** Gives the rows their drafts for the next step. `capacity` is the cache's, in tokens of one row. */
  propose(sequences: readonly Sequence[], capacity: number): void {
    if (this.drafters.length === 0) return;
    for (const sequence of sequences) sequence.propose([]);
    const numDecoding = sequences.filter(({ isPrefilling }) => !isPrefilling).length;
    const candidates = sequences.flatMap((sequence) => this.#candidate(sequence, capacity) ?? []);
    const lengths = this.#lengths(candidates, numDecoding, Math.max(0, (this.settings.maxStepTokens ?? Infinity) - numDecoding));
    const chosen = new Map(candidates.map(({ sequence, drafter }, i) => [sequence, { drafter, numDrafts: lengths[i] ?? 0 }]));
    this.#roundDrafter = this.#dearest([...chosen.values()].filter(({ numDrafts }) => numDrafts > 0));
    for (const drafter of this.drafters) {
      const wishes = sequences.filter((sequence) => this.#mayDraft(drafter, sequence)).map((sequence): DraftWish => {
        const choice = chosen.get(sequence);
        return { sequence, numDrafts: choice?.drafter === drafter ? choice.numDrafts : 0 };
      });
      if (wishes.length > 0) drafter.propose(wishes);
    }
  }

  /** Learns from a step: what it cost, and how every row's drafts did. Called before anything moves. */
  observe(plan: StepPlan, elapsedMs: number): void {
    if (this.drafters.length === 0) return;
    for (const drafter of this.drafters) drafter.observe(plan, (sequence) => this.#mayDraft(drafter, sequence));
    for (const { sequence, numDrafts } of plan.stepRows) {
      if (numDrafts > 0) this.#acceptances.of(sequence).observe(numDrafts, sequence.numAccepted);
    }
    for (const cost of [this.#plainCost, ...this.#roundCosts.values()]) cost.pass();
    if (plan.stepRows.some(({ sequence, isSampled }) => !isSampled || sequence.numGenerated <= 1)) return;
    const hasDrafts = plan.numTokens > plan.numRows;
    (hasDrafts ? this.#roundCost(this.#roundDrafter) : this.#plainCost)?.observe(plan.numTokens, elapsedMs);
  }

  /** The row's drafter goes on from a history of the whole row. */
  wantsHistory(sequence: Sequence): boolean {
    return this.#history(sequence) !== null;
  }

  /** Tokens of the row that its drafter's history covers; 0 without one. */
  historyLength(sequence: Sequence): number {
    return this.#history(sequence) ?? 0;
  }

  /** Pages have brought the row's first `length` tokens, and its drafter's history of them if it wants one. */
  restoreHistory(sequence: Sequence, length: number): void {
    if (this.wantsHistory(sequence)) this.#historian(sequence)?.restoreHistory?.(sequence, length);
  }

  /** Lets the drafters of rows that are about to leave take in what the last forward has left. */
  catchUp(sequences: readonly Sequence[]): void {
    for (const drafter of this.drafters) {
      const own = sequences.filter((sequence) => this.#historian(sequence) === drafter && this.wantsHistory(sequence));
      if (own.length > 0) drafter.propose(own.map((sequence) => ({ sequence, numDrafts: 0 })));
    }
  }

  #history(sequence: Sequence): number | null {
    return this.#historian(sequence)?.historyLength?.(sequence) ?? null;
  }

  /** The row's drafter that keeps a history of it. */
  #historian(sequence: Sequence): Drafter | undefined {
    return this.drafters.find((drafter) => drafter.historyLength !== undefined && this.#mayDraft(drafter, sequence));
  }

  #mayDraft({ kind }: Drafter, { request: { draftKind = kind } }: Sequence): boolean {
    return draftKind === kind;
  }

  #dearest(choices: readonly { readonly drafter: Drafter }[]): Drafter | undefined {
    return this.drafters.find((drafter) => choices.some((choice) => choice.drafter === drafter));
  }

  #roundCost(drafter: Drafter | undefined): StepCost | undefined {
    return drafter === undefined ? undefined : this.#roundCosts.get(drafter);
  }

  /** The row as one that may draft; null when it cannot. A round brings at least one token beside the drafts. */
  #candidate(sequence: Sequence, capacity: number): Candidate | null {
    if (sequence.isPrefilling || !sequence.canDraft) return null;
    const numLeft = sequence.maxLength - sequence.length - 1;
    const room = Math.min(numLeft, capacity - sequence.length, this.#maxRowTokens - 1);
    if (room <= 0) return null;
    const acceptances = this.#acceptances.of(sequence);
    const offers = this.drafters.flatMap((drafter): Candidate[] => {
      const offering = this.#mayDraft(drafter, sequence) ? drafter.offer(sequence) : null;
      if (offering === null) return [];
      const acceptance = acceptances.of(drafter.kind, offering.grade);
      return [{ drafter, sequence, acceptance, maxDrafts: Math.min(room, offering.maxDrafts) }];
    });
    const chosen = chooseOffer(offers);
    if (chosen !== null) acceptances.enter(chosen.acceptance);
    return chosen;
  }

  #lengths(candidates: readonly Candidate[], numDecoding: number, maxTotal: number): number[] {
    if (!this.settings.isAdaptive) return shareOut(candidates.map(({ maxDrafts }) => maxDrafts), maxTotal);
    // Where nothing is known of the cost, a first round finds out with few.
    const cost = this.#roundCost(this.#dearest(candidates));
    const most = (cost?.estimate(numDecoding) ?? null) === null ? PROBE_DRAFTS : Infinity;
    const offers = candidates.map(({ maxDrafts, acceptance: { probability } }) => ({ maxDrafts: Math.min(maxDrafts, most), probability }));
    const lengths = chooseDraftLengths(offers, numDecoding, maxTotal, (numDrafts) => this.#stepMs(cost, numDecoding, numDrafts));
    let numFree = maxTotal - lengths.reduce((sum, length) => sum + length, 0);
    return lengths.map((length, i) => {
      const candidate = candidates[i];
      if (length > 0 || candidate === undefined) return length;
      const probe = Math.min(PROBE_DRAFTS, candidate.maxDrafts, numFree);
      if (!this.#canPay(cost, numDecoding, probe) || !candidate.acceptance.skip()) return 0;
      numFree -= probe;
      return probe;
    });
  }

  /** Whether drafts would be worth a step of theirs if they were right: when they are too dear, trying them tells nothing. */
  #canPay(cost: StepCost | undefined, numDecoding: number, numDrafts: number): boolean {
    const plainMs = this.#stepMs(cost, numDecoding, 0);
    return (numDecoding + numDrafts) / this.#stepMs(cost, numDecoding, numDrafts) > MIN_GAIN * numDecoding / plainMs;
  }

  /** @param roundCost that of steps with drafts. */
  #stepMs(roundCost: StepCost | undefined, numDecoding: number, numDrafts: number): number {
    const plainMs = this.#plainCost.estimate(numDecoding) ?? 1;
    if (numDrafts === 0) return plainMs;
    return Math.max(plainMs, roundCost?.estimate(numDecoding + numDrafts, [numDecoding, plainMs]) ?? plainMs);
  }
}

/** As much as each may have, one by one, until nothing is left. */
function shareOut(wanted: readonly number[], total: number): number[] {
  const shares = wanted.map(() => 0);
  let left = Math.min(total, wanted.reduce((sum, want) => sum + want, 0));
  for (let i = 0; left > 0; i = (i + 1) % wanted.length) {
    if ((shares[i] ?? 0) >= (wanted[i] ?? 0)) continue;
    shares[i] = (shares[i] ?? 0) + 1;
    left--;
  }
  return shares;
}
