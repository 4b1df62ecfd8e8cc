import { VERIFY_MAX_TOKENS } from "../native/structs.ts";
import { type Acceptance, GradedAcceptance } from "./acceptance.ts";
import { chooseDraftLengths, MIN_GAIN } from "./draft_lengths.ts";
import type { Drafter, DraftWish } from "./drafter.ts";
import type { DraftKind } from "./messages.ts";
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
  readonly #roundCost = new StepCost();
  readonly #maxRowTokens: number;

  /** The first drafter is that of requests which name none. */
  constructor(readonly drafters: readonly Drafter[], readonly settings: SpeculationSettings) {
    this.#maxRowTokens = Math.min(settings.maxRowTokens ?? Infinity, VERIFY_MAX_TOKENS);
    this.columns = drafters.length === 0 ? [] : [this.#acceptances, ...drafters.flatMap(({ columns }) => columns)];
  }

  get kinds(): readonly DraftKind[] {
    return this.drafters.map(({ kind }) => kind);
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
    const numDrafts = new Map(candidates.map(({ sequence }, i) => [sequence, lengths[i] ?? 0]));
    for (const drafter of this.drafters) {
      const wishes: DraftWish[] = sequences.filter((sequence) => this.#drafterOf(sequence) === drafter)
        .map((sequence) => ({ sequence, numDrafts: numDrafts.get(sequence) ?? 0 }));
      if (wishes.length > 0) drafter.propose(wishes);
    }
  }

  /** Learns from a step: what it cost, and how every row's drafts did. Called before anything moves. */
  observe(plan: StepPlan, elapsedMs: number): void {
    if (this.drafters.length === 0) return;
    for (const drafter of this.drafters) drafter.observe(plan, (sequence) => this.#drafterOf(sequence) === drafter);
    for (const { sequence, numDrafts } of plan.stepRows) {
      if (numDrafts > 0) this.#acceptances.of(sequence).observe(numDrafts, sequence.numAccepted);
    }
    for (const cost of [this.#plainCost, this.#roundCost]) cost.pass();
    if (plan.stepRows.some(({ sequence, isSampled }) => !isSampled || sequence.numGenerated <= 1)) return;
    const hasDrafts = plan.numTokens > plan.numRows;
    (hasDrafts ? this.#roundCost : this.#plainCost).observe(plan.numTokens, elapsedMs);
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
    if (this.wantsHistory(sequence)) this.#drafterOf(sequence)?.restoreHistory?.(sequence, length);
  }

  /** Lets the drafters of rows that are about to leave take in what the last forward has left. */
  catchUp(sequences: readonly Sequence[]): void {
    for (const drafter of this.drafters) {
      const own = sequences.filter((sequence) => this.#drafterOf(sequence) === drafter && this.wantsHistory(sequence));
      if (own.length > 0) drafter.propose(own.map((sequence) => ({ sequence, numDrafts: 0 })));
    }
  }

  #history(sequence: Sequence): number | null {
    return this.#drafterOf(sequence)?.historyLength?.(sequence) ?? null;
  }

  #drafterOf({ request: { draftKind } }: Sequence): Drafter | undefined {
    return draftKind === undefined ? this.drafters[0] : this.drafters.find(({ kind }) => kind === draftKind);
  }

  /** The row as one that may draft; null when it cannot. A round brings at least one token beside the drafts. */
  #candidate(sequence: Sequence, capacity: number): Candidate | null {
    const drafter = this.#drafterOf(sequence);
    if (drafter === undefined || sequence.isPrefilling || !sequence.canDraft) return null;
    const numLeft = sequence.maxLength - sequence.length - 1;
    const room = Math.min(numLeft, capacity - sequence.length, this.#maxRowTokens - 1);
    const offering = room <= 0 ? null : drafter.offer(sequence);
    if (offering === null) return null;
    const acceptance = this.#acceptances.of(sequence).enter(offering.grade);
    return { drafter, sequence, acceptance, maxDrafts: Math.min(room, offering.maxDrafts) };
  }

  #lengths(candidates: readonly Candidate[], numDecoding: number, maxTotal: number): number[] {
    if (!this.settings.isAdaptive) return shareOut(candidates.map(({ maxDrafts }) => maxDrafts), maxTotal);
    // Where nothing is known of the cost, a first round finds out with few.
    const most = this.#roundCost.estimate(numDecoding) === null ? PROBE_DRAFTS : Infinity;
    const offers = candidates.map(({ maxDrafts, acceptance: { probability } }) => ({ maxDrafts: Math.min(maxDrafts, most), probability }));
    const lengths = chooseDraftLengths(offers, numDecoding, maxTotal, (numDrafts) => this.#stepMs(numDecoding, numDrafts));
    let numFree = maxTotal - lengths.reduce((sum, length) => sum + length, 0);
    return lengths.map((length, i) => {
      const candidate = candidates[i];
      if (length > 0 || candidate === undefined) return length;
      const probe = Math.min(PROBE_DRAFTS, candidate.maxDrafts, numFree);
      if (!this.#canPay(numDecoding, probe) || !candidate.acceptance.skip()) return 0;
      numFree -= probe;
      return probe;
    });
  }

  /** Whether drafts would be worth a step of theirs if they were right: when they are too dear, trying them tells nothing. */
  #canPay(numDecoding: number, numDrafts: number): boolean {
    return (numDecoding + numDrafts) / this.#stepMs(numDecoding, numDrafts) > MIN_GAIN * numDecoding / this.#stepMs(numDecoding, 0);
  }

  #stepMs(numDecoding: number, numDrafts: number): number {
    const plainMs = this.#plainCost.estimate(numDecoding) ?? 1;
    if (numDrafts === 0) return plainMs;
    return Math.max(plainMs, this.#roundCost.estimate(numDecoding + numDrafts, [numDecoding, plainMs]) ?? plainMs);
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
