import type { EngineErrorCode, FinishReason, GenerateRequest, RowTimings, TokenLogprob } from "./messages.ts";
import { RowEdits } from "./row_edits.ts";

/** Why a sequence leaves: it finished, or it failed alone. */
export type Outcome =
  | { readonly type: "finished"; readonly reason: FinishReason }
  | { readonly type: "failed"; readonly code: EngineErrorCode; readonly message: string };

/**
 * One request on its way: its tokens and how many of them the cache holds, `cachedLen ≤ length ≤ maxLength`. Everything else is derived.
 * It knows nothing of the scheduler; `slot` is written by the row table alone.
 */
export class Sequence {
  readonly id: string;
  readonly promptLength: number;
  readonly maxLength: number;
  readonly edits: RowEdits | null;
  /** Index in the row table and in the cache; -1 while waiting. */
  slot = -1;
  outcome: Outcome | null = null;
  /** Collected while the prompt is scored; null when not asked for or already sent. */
  promptLogprobs: (TokenLogprob | null)[] | null;
  admittedMs: number | null = null;
  firstTokenMs: number | null = null;
  #tokens: Int32Array<ArrayBuffer>;
  #length: number;
  #cachedLen = 0;
  #numReused = 0;
  #numDrafts = 0;
  #numAccepted = 0;
  #canDraft = true;
  #isPreempted = false;
  #hasUndrawn = false;

  /** `arrival` orders sequences first come first served. */
  constructor(readonly request: GenerateRequest, readonly arrival: number, readonly submittedMs: number) {
    this.id = request.id;
    this.promptLength = request.promptIds.length;
    this.maxLength = this.promptLength + request.maxTokens;
    this.#tokens = Int32Array.from(request.promptIds);
    this.#length = this.promptLength;
    this.edits = RowEdits.create(request.sampling, request.stopIds, request.promptIds);
    this.promptLogprobs = this.isScored ? [null] : null;
  }

  /** Prompt and generated tokens; only the first `length` count. */
  get tokens(): Int32Array<ArrayBuffer> {
    return this.#tokens;
  }

  get length(): number {
    return this.#length;
  }

  /** Tokens whose KV the cache holds. */
  get cachedLen(): number {
    return this.#cachedLen;
  }

  /** Tokens that the next forward may take. */
  get numPending(): number {
    return this.#length - this.#cachedLen;
  }

  get numGenerated(): number {
    return this.#length - this.promptLength;
  }

  /** Tokens proposed to come next, which the next step verifies. */
  get drafts(): Int32Array<ArrayBuffer> {
    return this.#tokens.slice(this.#length, this.#length + this.#numDrafts);
  }

  get numDrafts(): number {
    return this.#numDrafts;
  }

  /** Drafts of the last round that turned out right. */
  get numAccepted(): number {
    return this.#numAccepted;
  }

  /** More is left to compute than one new token: the prompt, or everything of a row that starts over. */
  get isPrefilling(): boolean {
    return this.#cachedLen < this.promptLength || this.numPending > 1;
  }

  get isScored(): boolean {
    return this.request.promptLogprobs >= 0;
  }

  /** The scores of its prompt are wanted and not told yet. */
  get needsScores(): boolean {
    return this.promptLogprobs !== null;
  }

  /** Prompt tokens that came from the prefix cache. */
  get numReused(): number {
    return this.#numReused;
  }

  /** The cache now holds `count` more tokens, which had been computed for another row. */
  reuse(count: number): void {
    if (this.numGenerated === 0) this.#numReused += count;
    this.advanceCache(count);
  }

  /** The cache now holds `count` more tokens. */
  advanceCache(count: number): void {
    this.#cachedLen += count;
    this.#assertLengths();
  }

  /** false after a draft broke the model: plain decoding has to tell whether the row itself is broken. */
  get canDraft(): boolean {
    return this.#canDraft;
  }

  /** A draft has left things in the cache that are no numbers: everything is computed again, without drafts. */
  startOver(): void {
    this.#cachedLen = 0;
    this.#canDraft = false;
  }

  /**
   * The row is given up for now. When it gets one again, everything is computed again, as a prompt: what it has generated and told stays, so the
   * next draw is the one that would have come.
   */
  preempt(): void {
    this.#cachedLen = 0;
    this.#hasUndrawn = false;
    this.#numDrafts = 0;
    this.#isPreempted = true;
    if (this.numGenerated === 0) this.#numReused = 0;
    if (this.promptLogprobs !== null) this.promptLogprobs = [null];
  }

  /** It has had a row before. */
  get isPreempted(): boolean {
    return this.#isPreempted;
  }

  /** Takes a sampled token in. */
  append(token: number): void {
    this.#reserve(this.#length + 1);
    this.#tokens[this.#length] = token;
    this.#length++;
    this.#assertLengths();
    this.edits?.accept(this.#tokens, this.#length);
  }

  /** Takes the newest `count` tokens back: edits and lengths are as before `append`. */
  retract(count: number): void {
    for (let i = 0; i < count; i++) {
      this.edits?.retract(this.#tokens, this.#length);
      this.#length--;
    }
    this.#assertLengths();
  }

  /** Sets the drafts for the next step. They are no tokens of the sequence yet. @throws {RangeError} when there is no budget for them. */
  propose(drafts: ArrayLike<number>): void {
    if (drafts.length > 0 && this.#length + drafts.length >= this.maxLength) {
      throw new RangeError(`Sequence "${this.id}" has ${this.maxLength - this.#length} tokens left, ${drafts.length} drafts are too many`);
    }
    this.#reserve(this.#length + drafts.length);
    this.#tokens.set(drafts, this.#length);
    this.#numDrafts = drafts.length;
  }

  /** Ends a round: `numAccepted` drafts are tokens of the sequence now. */
  endRound(numAccepted: number): void {
    this.#numAccepted = numAccepted;
    this.#numDrafts = 0;
  }

  /**
   * What the cache holds for the row has led to a drawn token, so it is made of numbers. Of a row that failed, or leaves before it is known,
   * it may hold NaN.
   */
  get hasSoundCache(): boolean {
    return this.outcome?.type !== "failed" && this.numGenerated > 0 && !this.#hasUndrawn;
  }

  /** The cache holds something of the row that no draw will vouch for. */
  skipDraw(): void {
    this.#hasUndrawn = true;
  }

  /** Why the sequence ends after its newest token, or null. */
  finishReason(): FinishReason | null {
    const isStop = this.numGenerated > 0 && this.request.stopIds.includes(this.#tokens[this.#length - 1] ?? -1);
    if (isStop) return "stop";
    return this.#length >= this.maxLength ? "length" : null;
  }

  timings(nowMs: number): RowTimings {
    const admittedMs = this.admittedMs ?? nowMs;
    const firstTokenMs = this.firstTokenMs ?? nowMs;
    return { queueMs: admittedMs - this.submittedMs, prefillMs: firstTokenMs - admittedMs, decodeMs: nowMs - firstTokenMs };
  }

  #reserve(length: number): void {
    if (length <= this.#tokens.length) return;
    const grown = new Int32Array(Math.min(this.maxLength, Math.max(64, length, 2 * this.#length)));
    grown.set(this.#tokens);
    this.#tokens = grown;
  }

  #assertLengths(): void {
    if (this.#cachedLen <= this.#length && this.#length <= this.maxLength) return;
    throw new RangeError(
      `Sequence "${this.id}" has lengths out of order: cached ${this.#cachedLen} ≤ ${this.#length} ≤ ${this.maxLength} must hold`,
    );
  }
}
