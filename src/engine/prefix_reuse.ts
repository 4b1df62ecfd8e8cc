import { BackendError, type BackendPage, type ModelBackend, type PageParts } from "./backend.ts";
import type { PageDisk } from "./disk/page_disk.ts";
import { failureOf } from "./failure.ts";
import { PrefixCache, type PrefixFigures } from "./prefix_cache.ts";
import { PrefixDisk } from "./prefix_disk.ts";
import { RowPrefix } from "./row_prefix.ts";
import type { Sequence } from "./sequence.ts";
import type { Speculation } from "./speculation.ts";
import type { StepRow } from "./step_plan.ts";

/** Pages written to slots in one step: together they take less time than a chunk of prompt. Whoever comes too late waits a step. */
const LOADS_PER_STEP = 64;
/** Pages copied in one step while their rows go on; the rest follows in the next ones. */
const SAVES_PER_STEP = 16;
/** Pages copied of rows that are about to leave; the rest is lost. */
const LAST_SAVES_PER_STEP = 64;
/** A row waits for another one's prompt when that spares it at least this share of what the other one has left to compute. */
const MIN_GAIN = 0.5;

export interface PrefixReuseOptions {
  /** Memory for pages; 0: nothing is kept. */
  readonly maxBytes: number;
  /** Where pages are kept beyond that. */
  readonly disk?: PageDisk | null;
  readonly nowMs: () => number;
}

/** Lends rows what others have computed before them, and keeps what they compute. Without a budget it does nothing. */
export class PrefixReuse {
  readonly #cache: PrefixCache | null;
  readonly #rows = new Map<Sequence, RowPrefix>();
  /** Rows that get their pages before they compute anything. */
  readonly #held = new Set<Sequence>();
  readonly #disk: PrefixDisk | null;
  #isWaitingForDisk = false;

  constructor(readonly backend: ModelBackend, readonly speculation: Speculation, { maxBytes, disk = null, nowMs }: PrefixReuseOptions) {
    this.#cache = maxBytes > 0 ? new PrefixCache(maxBytes) : null;
    this.#disk = this.#cache === null || disk === null ? null : new PrefixDisk(this.#cache, backend, disk, nowMs);
  }

  figures(): PrefixFigures | null {
    if (this.#cache === null) return null;
    const figures = this.#cache.figures();
    return this.#disk === null ? figures : { ...figures, disk: this.#disk.figures() };
  }

  /** The last `load` did nothing but wait for the disk: there is nothing to do for the rows that it holds before that answers, or its time is over. */
  get isWaitingForDisk(): boolean {
    return this.#isWaitingForDisk;
  }

  /** Nothing is left to be written to the disk. */
  get isSettled(): boolean {
    return this.#disk?.isSettled ?? true;
  }

  /** Hands the disk what it takes. To be called after every step, and whenever the disk has answered. */
  writeBehind(): void {
    this.#disk?.write();
  }

  /** A request has got a row. Prompts that are scored have to be computed, and are of a chunking of their own. */
  join(sequence: Sequence): void {
    const { request } = sequence;
    if (this.#cache === null || request.cachePrompt === false || sequence.isScored) return;
    this.#rows.set(sequence, new RowPrefix(sequence, this.#cache.open(request.cacheSalt ?? "")));
    if (!sequence.isPreempted) this.#cache.countQuery(sequence.promptLength);
  }

  /** The row is gone, or going: its pages may be evicted. */
  leave(sequence: Sequence): void {
    const row = this.#rows.get(sequence);
    if (row === undefined) return;
    this.#disk?.leave(row);
    row.close();
    this.#rows.delete(sequence);
  }

  /** Before a step: every row that computes its prompt takes the pages that are there. */
  load(sequences: readonly Sequence[]): void {
    this.#held.clear();
    this.#isWaitingForDisk = false;
    if (this.#cache === null) return;
    let budget = LOADS_PER_STEP;
    let isReading = false;
    const waiting = sequences.filter((sequence) => sequence.isPrefilling && sequence.outcome === null);
    for (const sequence of waiting.sort((a, b) => a.arrival - b.arrival)) {
      const row = this.#rows.get(sequence);
      if (row === undefined || !row.isAtPathEnd) continue;
      if (budget <= 0) {
        this.#held.add(sequence);
        continue;
      }
      this.#disk?.takeIn(row, budget);
      budget -= this.#loadRow(row);
      if (this.#isWorthWaiting(row)) this.#held.add(sequence);
      else if (this.#disk?.isReading(row, this.speculation.wantsHistory(sequence))) {
        isReading = true;
        this.#held.add(sequence);
      }
    }
    this.#isWaitingForDisk = isReading && budget === LOADS_PER_STEP;
  }

  /** How many of `count` prompt tokens the row computes in this step; 0: it waits. */
  readonly limitChunk = (sequence: Sequence, count: number): number => {
    if (this.#held.has(sequence)) return 0;
    const row = this.#rows.get(sequence);
    return row !== undefined && this.backend.isRecurrent && !row.isFull ? row.chunkToBorder(count) : count;
  };

  /** Before a step, when drafters have caught up: keeps the pages that the rows have filled. */
  save(sequences: readonly Sequence[]): void {
    let budget = SAVES_PER_STEP;
    for (const sequence of sequences) {
      const row = this.#rows.get(sequence);
      if (row === undefined || sequence.outcome !== null) continue;
      if (row.isSound) budget -= this.#saveRow(row, budget);
      else if (this.backend.isRecurrent && row.isAtUnsavedBorder) this.#attempt(row, () => row.hold(this.#copy(row, row.numFull - 1)));
    }
  }

  /** After this step there is nothing to keep yet: no row fills a page with it, and none has some that were not kept. */
  isBetweenPages(stepRows: readonly StepRow[]): boolean {
    return stepRows.every(({ sequence, count }) => {
      const row = this.#rows.get(sequence);
      return row === undefined || row.isFull || sequence.cachedLen + count < (row.numPages + 1) * row.pageTokens;
    });
  }

  /** After a step, before they leave: keeps what the rows that have finished computed since. */
  saveLast(sequences: readonly Sequence[]): void {
    const rows = sequences.filter(({ outcome }) => outcome?.type === "finished").flatMap((sequence) => this.#rows.get(sequence) ?? [])
      .filter((row) => row.isSound && !row.isFull && row.numFull > row.numPages);
    if (rows.length === 0) return;
    this.speculation.catchUp(rows.map(({ sequence }) => sequence));
    let budget = LAST_SAVES_PER_STEP;
    for (const row of rows) budget -= this.#saveRow(row, budget);
  }

  /**
   * Frees pages that no row stands on, the least recently used first, when memory is needed for something else. May be called between any two
   * calls of this class.
   * @returns the bytes freed: fewer than `numBytes` when there are no more such pages, up to a page more otherwise; 0 without a cache.
   */
  evict(numBytes: number): number {
    return this.#cache?.evict(numBytes) ?? 0;
  }

  /** Memory of all pages, also of those that are not stored yet. */
  get bytes(): number {
    const held = this.backend.isRecurrent ? this.#rows.values().reduce((sum, { heldBytes }) => sum + heldBytes, 0) : 0;
    return held + (this.#cache?.bytes ?? 0);
  }

  /** What pages may take from now on. Frees nothing by itself. */
  set limitBytes(numBytes: number) {
    if (this.#cache !== null) this.#cache.limitBytes = numBytes;
  }

  /** For rows that need all memory there is: frees every page. The rows that are there neither take nor leave pages any more. */
  giveUp(): void {
    for (const sequence of [...this.#rows.keys()]) this.leave(sequence);
    this.clear();
  }

  /** Gives all pages back that no row stands on. */
  clear(): void {
    this.#cache?.clear();
  }

  checkIntegrity(): void {
    this.#cache?.checkIntegrity();
  }

  /** @returns how many pages were written. */
  #loadRow(row: RowPrefix): number {
    const { sequence } = row;
    const pages = row.usable(this.speculation.wantsHistory(sequence));
    try {
      for (const node of pages) {
        if (node.page !== null) this.backend.loadPage(node.page, sequence.slot, row.numPages * row.pageTokens);
        row.enter(node);
      }
    } catch (error) {
      // Nobody knows what the slot holds now.
      sequence.outcome = { type: "failed", ...failureOf(error) };
      return pages.length;
    }
    if (pages.length === 0) return 0;
    const numTokens = pages.length * row.pageTokens;
    if (sequence.numGenerated === 0 && !sequence.isPreempted) this.#cache?.countHit(numTokens);
    sequence.reuse(numTokens);
    this.speculation.restoreHistory(sequence, sequence.cachedLen);
    return pages.length;
  }

  /** Somebody before it computes what it needs, and will have kept it soon. */
  #isWorthWaiting(row: RowPrefix): boolean {
    for (const other of this.#rows.values()) {
      if (other.sequence.arrival >= row.sequence.arrival || other.isFull || other.sequence.outcome !== null) continue;
      const numShared = row.numShared(other);
      if (other.numPages >= numShared || row.numPages >= numShared) continue;
      const gain = (numShared - row.numPages) * row.pageTokens;
      if (gain >= MIN_GAIN * (other.sequence.promptLength - other.sequence.cachedLen)) return true;
    }
    return false;
  }

  /** @returns how many pages were copied, at most `budget`. */
  #saveRow(row: RowPrefix, budget: number): number {
    let numCopied = 0;
    while (!row.isFull && row.numPages < row.numFull && numCopied < budget) {
      const known = row.stored();
      if (known !== null && !isBetter(this.#partsOf(row, row.numPages), known)) {
        row.enterStored();
        continue;
      }
      numCopied++;
      this.#attempt(row, () => row.add(row.takeHeld(row.numPages) ?? this.#copy(row, row.numPages)));
    }
    return numCopied;
  }

  /** @throws {BackendError} also when it would take what rows need. */
  #copy(row: RowPrefix, index: number): BackendPage {
    const { sequence: { slot }, pageTokens } = row;
    const parts = this.#partsOf(row, index);
    const { kvBytesPerToken, kvBytesPerSlot = 0 } = this.backend.facts;
    const numBytes = pageTokens * kvBytesPerToken + (parts.hasState ? kvBytesPerSlot : 0);
    const numMissing = this.bytes + numBytes - (this.#cache?.limitBytes ?? 0);
    if (numMissing > 0 && this.evict(numMissing) < numMissing) throw new BackendError(`No room for a page of ${numBytes} bytes`, true);
    return this.backend.savePage(slot, index * pageTokens, pageTokens, parts);
  }

  /** What a copy of the row's page `index` would hold. */
  #partsOf(row: RowPrefix, index: number): PageParts {
    const end = (index + 1) * row.pageTokens;
    const { sequence } = row;
    return {
      hasState: !this.backend.isRecurrent || sequence.cachedLen === end || row.hasHeld(index),
      hasHistory: this.speculation.historyLength(sequence) >= end,
    };
  }

  /** Without memory for a page the row keeps nothing more. */
  #attempt(row: RowPrefix, act: () => void): void {
    try {
      act();
    } catch {
      row.isFull = true;
    }
  }
}

/** It holds something that the other one lacks, and lacks nothing. */
function isBetter(parts: PageParts, than: PageParts): boolean {
  const names = ["hasState", "hasHistory"] as const;
  return names.some((name) => parts[name] && !than[name]) && names.every((name) => parts[name] || !than[name]);
}
