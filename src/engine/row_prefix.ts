import type { BackendPage } from "./backend.ts";
import type { PrefixLease, StoredPage } from "./prefix_cache.ts";
import type { Sequence } from "./sequence.ts";

/** Pages of a recurrent model's prompt that wait for its first draw, at most: states are large. */
const MAX_HELD = 4;

/** One row and its path in the prefix cache. The path is what is stored of the row's tokens. */
export class RowPrefix {
  /** No page could be stored: the row keeps nothing more. */
  isFull = false;
  /** By page: copies that were made before it was known whether the row is sound. */
  readonly #held = new Map<number, BackendPage>();
  /** Pages that its prompt has in common with those of other rows, as far as anybody asked. */
  readonly #shared = new WeakMap<RowPrefix, number>();

  constructor(readonly sequence: Sequence, readonly lease: PrefixLease) {}

  get pageTokens(): number {
    return this.lease.cache.pageTokens;
  }

  get numPages(): number {
    return this.lease.numPages;
  }

  get path(): readonly StoredPage[] {
    return this.lease.path;
  }

  /** Where the path goes on: its last page, or the root. */
  get pathEnd(): StoredPage {
    return this.path.at(-1) ?? this.lease.root;
  }

  /** Pages that the slot holds whole. */
  get numFull(): number {
    return Math.floor(this.sequence.cachedLen / this.pageTokens);
  }

  /** Pages that may be loaded: the last token has to be computed, for its logits. */
  get maxLoaded(): number {
    return Math.floor((this.sequence.length - 1) / this.pageTokens);
  }

  /** The slot holds what the path spells, and nothing more: loaded pages go on from here. */
  get isAtPathEnd(): boolean {
    return this.sequence.cachedLen === this.numPages * this.pageTokens;
  }

  /** The slot has led to drawn tokens: what is in it is made of numbers. */
  get isSound(): boolean {
    return this.sequence.hasSoundCache && !this.sequence.isPrefilling;
  }

  /** A recurrent state stands at the end of a page that nobody has stored with its state. */
  get isAtUnsavedBorder(): boolean {
    const { cachedLen, tokens } = this.sequence;
    if (this.isFull || this.numFull <= this.numPages || cachedLen !== this.numFull * this.pageTokens || this.hasHeld(this.numFull - 1)) {
      return false;
    }
    const ahead = this.lease.ahead(tokens, this.numFull);
    return this.numPages + ahead.length < this.numFull || ahead.at(-1)?.page?.hasState !== true;
  }

  /** The tokens of page `index`, as the cache spells them. */
  keyOf(index: number): string {
    return this.lease.cache.keyOf(this.sequence.tokens, index);
  }

  /** The stored pages that go on where the path ends, as far as they may be loaded. */
  ahead(): StoredPage[] {
    return this.lease.ahead(this.sequence.tokens, this.maxLoaded);
  }

  /** The stored pages to load: all of them have a drafter's history if that is wanted, and the last one has the state to go on from. */
  usable(wantsHistory: boolean): StoredPage[] {
    const found = this.ahead();
    const gap = found.findIndex(({ page }) => wantsHistory && page?.hasHistory !== true);
    const whole = gap < 0 ? found : found.slice(0, gap);
    return whole.slice(0, whole.findLastIndex(({ page }) => page?.hasState === true) + 1);
  }

  /** What is stored of the page where the path ends; null when nothing is. */
  stored(): BackendPage | null {
    return this.#next()?.page ?? null;
  }

  enterStored(): void {
    const next = this.#next();
    this.takeHeld(this.numPages)?.free();
    if (next !== undefined) this.lease.enter(next);
  }

  enter(node: StoredPage): void {
    this.lease.enter(node);
  }

  /** Stores the page where the path ends; without room it is freed, and no other one follows. */
  add(page: BackendPage): void {
    if (this.lease.add(this.sequence.tokens, page)) return;
    page.free();
    this.isFull = true;
  }

  get heldBytes(): number {
    return this.#held.values().reduce((sum, { bytes }) => sum + bytes, 0);
  }

  hasHeld(index: number): boolean {
    return this.#held.has(index);
  }

  /** Keeps a copy of the slot's last page until the row's first draw. The newest are the most useful ones. */
  hold(page: BackendPage): void {
    this.#held.set(this.numFull - 1, page);
    const [oldest] = this.#held.keys();
    if (this.#held.size > MAX_HELD && oldest !== undefined) this.takeHeld(oldest)?.free();
  }

  /** The copy of page `index`, which is the caller's from now on. */
  takeHeld(index: number): BackendPage | null {
    const page = this.#held.get(index) ?? null;
    this.#held.delete(index);
    return page;
  }

  /** So many of `count` prompt tokens that the chunk ends at the end of a page, where the state can be kept, if one is in reach. */
  chunkToBorder(count: number): number {
    const { cachedLen, length } = this.sequence;
    const end = Math.min(cachedLen + count, length - 1);
    const border = Math.floor(end / this.pageTokens) * this.pageTokens;
    return border > cachedLen ? border - cachedLen : count;
  }

  /** Whole pages that both prompts begin with and that this row may load. */
  numShared(other: RowPrefix): number {
    const known = this.#shared.get(other);
    if (known !== undefined) return known;
    const [own, others] = [this.sequence.request.promptIds, other.sequence.request.promptIds];
    const most = other.lease.root === this.lease.root ? Math.min(this.maxLoaded * this.pageTokens, others.length) : 0;
    let numTokens = 0;
    while (numTokens < most && own[numTokens] === others[numTokens]) numTokens++;
    const numPages = Math.floor(numTokens / this.pageTokens);
    this.#shared.set(other, numPages);
    return numPages;
  }

  close(): void {
    for (const index of [...this.#held.keys()]) this.takeHeld(index)?.free();
    this.lease.close();
  }

  #next(): StoredPage | undefined {
    return this.lease.ahead(this.sequence.tokens, this.numPages + 1)[0];
  }
}
