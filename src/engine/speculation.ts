import { VERIFY_MAX_TOKENS } from "../native/structs.ts";
import { type Acceptance, GradedAcceptance } from "./acceptance.ts";
import { chooseOffer } from "./choose_offer.ts";
import { chooseDraftLengths } from "./draft_lengths.ts";
import type { Drafter, DraftWish } from "./drafter.ts";
import type { DraftFailures, DraftKind } from "./messages.ts";
import { type DraftChoice, type Drafted, RoundCost } from "./round_cost.ts";
import { RowStates } from "./row_states.ts";
import type { RowColumn } from "./rows.ts";
import type { Sequence } from "./sequence.ts";
import type { StepPlan } from "./step_plan.ts";

/** Drafts of a row that is tried again after a while without: the first one tells most. */
const PROBE_DRAFTS = 1;

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
  readonly #allAcceptance = new GradedAcceptance();
  readonly #acceptances = new RowStates("acceptance", () => new GradedAcceptance(this.#allAcceptance));
  readonly #cost: RoundCost;
  readonly #maxRowTokens: number;
  /** What drafting for the step that is being made has taken. */
  readonly #drafted = new Map<Drafter, Drafted>();

  /** @param drafters the first one has the rows that several are equally good for. Requests that name none are drafted for by whichever does best. */
  constructor(readonly drafters: readonly Drafter[], readonly settings: SpeculationSettings) {
    this.#maxRowTokens = Math.min(settings.maxRowTokens ?? Infinity, VERIFY_MAX_TOKENS);
    this.#cost = new RoundCost(drafters);
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
  propose(sequences: readonly Sequence[], capacity: number, nowMs: () => number): void {
    if (this.drafters.length === 0) return;
    for (const sequence of sequences) sequence.propose([]);
    const chosen = new Map(this.#choose(sequences, capacity).map(({ sequence, ...choice }) => [sequence, choice]));
    this.#drafted.clear();
    for (const drafter of this.drafters) {
      const wishes = sequences.filter((sequence) => this.#mayDraft(drafter, sequence)).map((sequence): DraftWish => {
        const choice = chosen.get(sequence);
        return { sequence, numDrafts: choice?.drafter === drafter ? choice.numDrafts : 0 };
      });
      if (wishes.length === 0) continue;
      const startMs = nowMs();
      drafter.propose(wishes);
      const numDrafts = Math.max(...wishes.map((wish) => wish.numDrafts));
      if (numDrafts > 0) this.#drafted.set(drafter, { numDrafts, ms: nowMs() - startMs });
    }
  }

  /**
   * Whether the step after the one that is on its way can do without drafts, whatever that one draws: no row would draft now or begins to, and
   * no drafter has to see every step. A row whose text begins to repeat drafts a step later for it.
   */
  canGoOn(sequences: readonly Sequence[], capacity: number): boolean {
    if (this.drafters.length === 0) return true;
    if (this.drafters.some(({ historyLength }) => historyLength !== undefined) || sequences.some(({ isPrefilling }) => isPrefilling)) {
      return false;
    }
    return this.#choose(sequences, capacity).every(({ numDrafts }) => numDrafts === 0);
  }

  /** Learns from a step: what it cost, and how every row's drafts did. Called before anything moves. */
  observe(plan: StepPlan, elapsedMs: number): void {
    if (this.drafters.length === 0) return;
    for (const drafter of this.drafters) drafter.observe(plan, (sequence) => this.#mayDraft(drafter, sequence));
    for (const { sequence, numDrafts } of plan.stepRows) {
      if (numDrafts > 0) this.#acceptances.of(sequence).observe(numDrafts, sequence.numAccepted);
    }
    this.#cost.pass();
    if (plan.stepRows.some(({ sequence, isSampled }) => !isSampled || sequence.numGenerated <= 1)) return;
    const { numRows, numTokens } = plan;
    this.#cost.observe({ numRows, numTokens, drafted: this.#drafted, elapsedMs });
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

  /** By whom and how much each row drafts that may. */
  #choose(sequences: readonly Sequence[], capacity: number): (DraftChoice & { readonly sequence: Sequence })[] {
    const numDecoding = sequences.filter(({ isPrefilling }) => !isPrefilling).length;
    const candidates = sequences.flatMap((sequence) => this.#candidate(sequence, capacity, numDecoding) ?? []);
    const lengths = this.#lengths(candidates, numDecoding, Math.max(0, (this.settings.maxStepTokens ?? Infinity) - numDecoding));
    return candidates.map(({ sequence, drafter }, i) => ({ sequence, drafter, numDrafts: lengths[i] ?? 0 }));
  }

  /** The row as one that may draft; null when it cannot. A round brings at least one token beside the drafts. */
  #candidate(sequence: Sequence, capacity: number, numDecoding: number): Candidate | null {
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
    const chosen = chooseOffer(offers, (offer) => this.#promise(offer, numDecoding));
    if (chosen !== null) acceptances.enter(chosen.acceptance);
    return chosen;
  }

  /** Tokens per millisecond at best, if this row alone drafted. Where lengths do not look at what they cost, drafters are not chosen by it. */
  #promise({ drafter, acceptance, maxDrafts }: Candidate, numDecoding: number): number {
    let [best, tokens, chance] = [0, numDecoding, 1];
    for (let numDrafts = 1; numDrafts <= maxDrafts; numDrafts++) {
      tokens += chance *= acceptance.hope(numDrafts - 1);
      const ms = this.settings.isAdaptive ? this.#cost.estimate(numDecoding, [{ drafter, numDrafts }]) : 1;
      best = Math.max(best, tokens / ms);
    }
    return best;
  }

  #lengths(candidates: readonly Candidate[], numDecoding: number, maxTotal: number): number[] {
    if (!this.settings.isAdaptive) return shareOut(candidates.map(({ maxDrafts }) => maxDrafts), maxTotal);
    // A plain step first: without it there is nothing to compare with.
    if (!this.#cost.isKnown) return candidates.map(() => 0);
    const offers = candidates.map(({ drafter, maxDrafts, acceptance }) => ({
      // Where nothing is known of the cost, a first round finds out with few.
      maxDrafts: this.#cost.knows(drafter) ? maxDrafts : Math.min(maxDrafts, PROBE_DRAFTS),
      chance: (place: number): number => acceptance.chance(place),
    }));
    const stepMs = (lengths: readonly number[]): number =>
      this.#cost.estimate(numDecoding, candidates.map(({ drafter }, i): DraftChoice => ({ drafter, numDrafts: lengths[i] ?? 0 })));
    const lengths = chooseDraftLengths(offers, numDecoding, maxTotal, stepMs);
    const idle = candidates.filter((_, i) => lengths[i] === 0).map(({ acceptance }) => acceptance);
    for (const acceptance of idle) acceptance.skip(numDecoding);
    const due = dueOf(idle);
    if (due.size === 0) return lengths;
    // Where drafts would not be worth their cost even if they were right, trying them tells nothing.
    const hoped = chooseDraftLengths(offers.map(({ maxDrafts }) => ({ maxDrafts, chance: () => 1 })), numDecoding, maxTotal, stepMs);
    let numFree = total(hoped) - total(lengths);
    return lengths.map((length, i) => due.has(candidates[i]!.acceptance) && --numFree >= 0 ? PROBE_DRAFTS : length);
  }
}

/** Those that have not drafted for long; when that is so of all rows, one of them tries for the others. */
function dueOf(idle: readonly Acceptance[]): Set<Acceptance> {
  const due = new Set(idle.filter(({ isDue }) => isDue));
  const tried = new Set([...due].map(({ all }) => all));
  for (const acceptance of idle) {
    if (acceptance.all?.isDue !== true || tried.has(acceptance.all)) continue;
    due.add(acceptance);
    tried.add(acceptance.all);
  }
  return due;
}

function total(lengths: readonly number[]): number {
  return lengths.reduce((sum, length) => sum + length, 0);
}

/** As much as each may have, one by one, until nothing is left. */
function shareOut(wanted: readonly number[], most: number): number[] {
  const shares = wanted.map(() => 0);
  let left = Math.min(most, total(wanted));
  for (let i = 0; left > 0; i = (i + 1) % wanted.length) {
    if ((shares[i] ?? 0) >= (wanted[i] ?? 0)) continue;
    shares[i] = (shares[i] ?? 0) + 1;
    left--;
  }
  return shares;
}
