import type { DrafterBackend } from "./backend.ts";
import { DraftHistories, type DraftHistory } from "./draft_history.ts";
import { DraftPlan } from "./draft_plan.ts";
import type { Drafter, DraftWish, Offering } from "./drafter.ts";
import type { DraftFailures, DraftKind } from "./messages.ts";
import type { RowColumn } from "./rows.ts";
import { SamplingBatch } from "./sampling_batch.ts";
import type { Sequence } from "./sequence.ts";
import type { StepPlan } from "./step_plan.ts";

/**
 * Every step costs a call of the drafter, if only to keep the history whole; a draft that was right pays for some of them. A row that owes for
 * so many steps goes on without.
 */
const MAX_IDLE_STEPS = 64;
const STEPS_PAID_BY_A_DRAFT = 8;

/** One row while it is drafted for. */
interface Drafting {
  readonly sequence: Sequence;
  readonly history: DraftHistory;
  readonly numDrafts: number;
  readonly drafts: number[];
  /** Row of features that the newest entry left in the drafter's output. */
  feature: number;
}

/**
 * Drafts with a model of its own: `mtp` and `eagle3` token after token, `dflash` a block at once. Every draft is drawn with the configuration,
 * seed and position with which the target draws that token, so that the two agree far more often than a best guess would at high temperatures.
 */
export class ModelDrafter implements Drafter {
  readonly kind: DraftKind;
  readonly columns: readonly RowColumn[];
  readonly #histories: DraftHistories;
  readonly #sampling: SamplingBatch;
  readonly #plan = new DraftPlan();
  #failures: DraftFailures | null = null;

  /** @param isCoupled false: every draft is the drafter's best token. */
  constructor(readonly backend: DrafterBackend, readonly maxDrafts: number, vocabSize: number, readonly isCoupled: boolean = true) {
    this.kind = backend.kind;
    this.#histories = new DraftHistories(backend.kind === "mtp");
    this.#sampling = new SamplingBatch(vocabSize);
    this.columns = [this.#histories, this.#sampling];
  }

  get failures(): DraftFailures | null {
    return this.#failures;
  }

  offer(sequence: Sequence): Offering | null {
    return this.#histories.of(sequence).isLost ? null : { maxDrafts: this.maxDrafts, grade: 0 };
  }

  historyLength(sequence: Sequence): number | null {
    const { isLost, length } = this.#histories.of(sequence);
    return isLost ? null : length;
  }

  restoreHistory(sequence: Sequence, length: number): void {
    this.#histories.of(sequence).restore(length);
  }

  observe(plan: StepPlan, isOwn: (sequence: Sequence) => boolean): void {
    this.#histories.observe(plan, isOwn);
  }

  propose(wishes: readonly DraftWish[]): void {
    const rows = wishes.map(({ sequence, numDrafts }): Drafting => ({
      sequence,
      history: this.#histories.of(sequence),
      numDrafts,
      drafts: [],
      feature: -1,
    }));
    for (const row of rows) this.#countIdle(row);
    const lengths = rows.map(({ sequence }) => sequence.length);
    try {
      if (this.backend.maskTokenId === null) this.#draftChains(rows);
      else this.#draftBlocks(rows, this.backend.maskTokenId);
    } catch (error) {
      this.#noteFailure(error instanceof Error ? error.message : String(error));
      // Without drafts the rows go on as if nobody had tried; their histories have a gap now.
      for (const row of rows) this.#lose(row);
    }
    for (const [i, { sequence, history, drafts }] of rows.entries()) {
      sequence.retract(sequence.length - (lengths[i] ?? 0));
      if (!history.isLost && drafts.length > 0) sequence.propose(drafts);
    }
  }

  #countIdle(row: Drafting): void {
    const { sequence, history, numDrafts } = row;
    const numRight = history.hasDrafted ? sequence.numAccepted : 0;
    if (!sequence.isPrefilling) history.numIdle = Math.max(0, history.numIdle + 1 - STEPS_PAID_BY_A_DRAFT * numRight);
    history.hasDrafted = numDrafts > 0;
    if (history.numIdle > MAX_IDLE_STEPS) this.#lose(row);
  }

  /** One call brings the histories up to date and makes each row's first draft; every further call makes one more. */
  #draftChains(rows: readonly Drafting[]): void {
    this.#plan.clear();
    for (const row of rows) this.#addMissing(row);
    if (this.#plan.numRows === 0) return;
    this.backend.draft(this.#plan, "model");
    let drafting = rows.filter(({ feature, numDrafts }) => feature >= 0 && numDrafts > 0);
    this.#drawNext(drafting);
    for (;;) {
      drafting = drafting.filter(({ drafts, numDrafts, history }) => !history.isLost && drafts.length < numDrafts);
      if (drafting.length === 0) return;
      this.#plan.clear();
      for (const row of drafting) this.#addDraft(row);
      this.backend.draft(this.#plan, "own");
      this.#drawNext(drafting);
    }
  }

  #addMissing(row: Drafting): void {
    const { sequence, history, numDrafts } = row;
    const features = history.missingFeatures(sequence);
    if (features.length === 0) return;
    // An entry pairs a token's features with the token after it.
    const tokens = sequence.tokens.subarray(history.length + 1, sequence.cachedLen + 1);
    row.feature = this.#plan.add({ slot: sequence.slot, offset: history.length, tokens, outputs: Math.min(1, numDrafts), features });
    history.length = sequence.cachedLen;
  }

  #addDraft(row: Drafting): void {
    const { sequence: { slot }, history, drafts } = row;
    const tokens = drafts.slice(-1);
    row.feature = this.#plan.add({ slot, offset: history.length + history.numOwn, tokens, outputs: 1, features: [row.feature] });
    history.numOwn++;
  }

  #drawNext(rows: readonly Drafting[]): void {
    if (rows.length === 0) return;
    this.#sampling.begin();
    for (const { sequence } of rows) this.#sampling.add(sequence, { hasLogprobs: false, isGreedy: !this.isCoupled });
    this.backend.sample(this.#sampling.call);
    for (const [i, row] of rows.entries()) this.#takeDraft(row, i);
  }

  /** The newest token and so many masks are a block, whose masks become drafts all at once. What the model has committed joins the history. */
  #draftBlocks(rows: readonly Drafting[], maskTokenId: number): void {
    this.#plan.clear();
    this.#sampling.begin();
    const called = rows.filter((row) => row.numDrafts > 0 || row.history.numMissing(row.sequence) > 0);
    for (const { sequence, history, numDrafts } of called) {
      const tokens = [sequence.tokens[sequence.cachedLen] ?? 0, ...Array<number>(numDrafts).fill(maskTokenId)];
      const features = history.missingFeatures(sequence);
      this.#plan.add({ slot: sequence.slot, offset: history.length, tokens, outputs: numDrafts, features });
      history.length += features.length;
      for (let ahead = 0; ahead < numDrafts; ahead++) {
        this.#sampling.add(sequence, { ahead, hasLogprobs: false, isGreedy: !this.isCoupled });
      }
    }
    if (called.length === 0) return;
    this.backend.draft(this.#plan, "model");
    if (this.#sampling.call.numRows > 0) this.backend.sample(this.#sampling.call);
    let output = 0;
    for (const row of called) {
      for (let i = 0; i < row.numDrafts; i++) this.#takeDraft(row, output++);
    }
  }

  /** The row stands as if the draft were its token: the next draw sees position, penalties and bans as the target will. */
  #takeDraft(row: Drafting, output: number): void {
    const { sampled } = this.#sampling.call;
    if (row.history.isLost) return;
    if (sampled.isBroken(output) || sampled.token(output) < 0) {
      this.#noteFailure(`The ${this.kind} drafter's logits for request "${row.sequence.id}" have no token to draw`);
      return this.#lose(row);
    }
    row.drafts.push(sampled.token(output));
    row.sequence.append(sampled.token(output));
  }

  #noteFailure(message: string): void {
    this.#failures = { count: (this.#failures?.count ?? 0) + 1, message };
  }

  /** Whatever the drafter's cache holds for the row must not reach the next one in its slot. */
  #lose({ sequence, history }: Drafting): void {
    if (!history.isLost) this.backend.clear(sequence.slot);
    history.isLost = true;
  }
}
