import type { BackendPage } from "./backend.ts";
import type { DiskFigures } from "./disk/page_disk.ts";

/** Tokens of one page. */
export const PAGE_TOKENS = 64;

/** Running totals and gauges. */
export interface PrefixFigures {
  /** Requests that looked for a prefix, and tokens of their prompts. */
  readonly queries: number;
  readonly queryTokens: number;
  /** Prompt tokens that did not have to be computed. */
  readonly hitTokens: number;
  readonly pages: number;
  readonly bytes: number;
  readonly evictions: number;
  /** Absent when nothing is kept on a disk. */
  readonly disk?: DiskFigures;
}

/** Of an engine without a prefix cache. */
export const NO_PREFIXES: PrefixFigures = { queries: 0, queryTokens: 0, hitTokens: 0, pages: 0, bytes: 0, evictions: 0 };

/** One page in the tree: the path to it spells the tokens before it. */
export class StoredPage {
  readonly children = new Map<string, StoredPage>();
  /** Rows whose path leads through it. */
  numLeases = 0;
  /** When it was used last, counted in uses. */
  lastUse = 0;

  constructor(readonly parent: StoredPage | null, readonly key: string, public page: BackendPage | null) {}
}

/**
 * What rows have left in pages, as a radix tree over token ids with one edge a page; one tree for every salt. The model needs no salt: every
 * engine has one model and a cache of its own. A page is evicted when memory is short, no row stands on it and nothing is stored behind it,
 * the least recently used first: what many prompts begin with stays longest.
 */
export class PrefixCache {
  readonly #roots = new Map<string, StoredPage>();
  readonly #evictable = new Set<StoredPage>();
  readonly #leases = new Set<PrefixLease>();
  readonly #totals = { queries: 0, queryTokens: 0, hitTokens: 0, evictions: 0 };
  #numPages = 0;
  #bytes = 0;
  #numUses = 0;
  /** What rows leave for pages at present, when that is less than `maxBytes`. Lowering it frees nothing by itself. */
  limitBytes = Infinity;
  /** Hears of every page that is stored, also in place of another one. */
  onStore: (node: StoredPage) => void = () => {};
  /** Hears of every page that goes, before it is freed. */
  onEvict: (node: StoredPage) => void = () => {};

  constructor(readonly maxBytes: number, readonly pageTokens: number = PAGE_TOKENS) {}

  figures(): PrefixFigures {
    return { ...this.#totals, pages: this.#numPages, bytes: this.#bytes };
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** A row joins. `salt` keeps tenants apart: prefixes are found among those of the same salt alone. */
  open(salt: string): PrefixLease {
    let root = this.#roots.get(salt);
    if (root === undefined) this.#roots.set(salt, root = new StoredPage(null, salt, null));
    const lease = new PrefixLease(this, root);
    this.#leases.add(lease);
    return lease;
  }

  countQuery(numTokens: number): void {
    this.#totals.queries++;
    this.#totals.queryTokens += numTokens;
  }

  countHit(numTokens: number): void {
    this.#totals.hitTokens += numTokens;
  }

  /** The tokens of page `index` as a key: exact, two characters for each. */
  keyOf(tokens: Int32Array, index: number): string {
    const page = tokens.slice(index * this.pageTokens, (index + 1) * this.pageTokens);
    return String.fromCharCode(...new Uint16Array(page.buffer));
  }

  /** For leases: a row's path leads on through `node`. */
  enter(node: StoredPage): void {
    node.numLeases++;
    node.lastUse = ++this.#numUses;
    this.#evictable.delete(node);
  }

  /**
   * For leases: stores `page` behind `parent`, on which a row stands, or in place of the page that is there.
   * @returns null when there is no room, even after evictions; the page is then still the caller's.
   */
  store(parent: StoredPage, key: string, page: BackendPage): StoredPage | null {
    const known = parent.children.get(key);
    // What is replaced must not be evicted to make room for itself.
    if (known !== undefined) this.enter(known);
    const freed = known?.page?.bytes ?? 0;
    const hasRoom = this.#makeRoom(page.bytes - freed);
    if (known !== undefined) this.#leave(known);
    if (!hasRoom) return null;
    const node = known ?? new StoredPage(parent, key, null);
    node.page?.free();
    node.page = page;
    this.#bytes += page.bytes - freed;
    if (known === undefined) {
      parent.children.set(key, node);
      this.#evictable.delete(parent);
      this.#numPages++;
    }
    this.onStore(node);
    return node;
  }

  /**
   * Stores a page that no row has computed here behind `parent`, which may be a page that no row stands on.
   * @returns null when there is no room; the page is then still the caller's.
   */
  insert(parent: StoredPage, key: string, page: BackendPage): StoredPage | null {
    const isPage = parent.parent !== null;
    // What it is stored behind must not be evicted to make room for it.
    if (isPage) this.enter(parent);
    const node = this.store(parent, key, page);
    if (node !== null) {
      this.enter(node);
      this.#leave(node);
    }
    if (isPage) this.#leave(parent);
    return node;
  }

  /** For leases: a row has left. */
  close(lease: PrefixLease): void {
    if (!this.#leases.delete(lease)) return;
    for (const node of lease.path) this.#leave(node);
    this.#dropEmptyRoot(lease.root);
  }

  /**
   * For whoever needs memory more: frees pages that no row stands on, the least recently used first, until `numBytes` are free.
   * @returns the bytes freed: fewer when there are no more such pages, up to a page more otherwise.
   */
  evict(numBytes: number): number {
    const before = this.#bytes;
    for (let oldest = this.#oldest(); oldest !== null && before - this.#bytes < numBytes; oldest = this.#oldest()) this.#evict(oldest);
    return before - this.#bytes;
  }

  /** Gives all pages back that no row stands on. */
  clear(): void {
    this.evict(Infinity);
  }

  /** @throws {Error} that says what is out of step. */
  checkIntegrity(): void {
    const numLeases = new Map<StoredPage, number>();
    for (const node of [...this.#leases].flatMap(({ path }) => path)) numLeases.set(node, (numLeases.get(node) ?? 0) + 1);
    let [numPages, bytes, numEvictable] = [0, 0, 0];
    const visit = (node: StoredPage): void => {
      for (const [key, child] of node.children) {
        if (child.parent !== node || child.key !== key || child.page === null) throw new Error("A page is not where its path says");
        if (child.numLeases !== (numLeases.get(child) ?? 0)) {
          throw new Error(`A page counts ${child.numLeases} rows, ${numLeases.get(child)} stand on it`);
        }
        const isEvictable = child.children.size === 0 && child.numLeases === 0;
        if (isEvictable !== this.#evictable.has(child)) {
          throw new Error(`A page that ${isEvictable ? "can" : "cannot"} go is listed wrongly`);
        }
        numLeases.delete(child);
        numPages++;
        bytes += child.page.bytes;
        numEvictable += Number(isEvictable);
        visit(child);
      }
    };
    for (const root of this.#roots.values()) visit(root);
    if (numLeases.size > 0) throw new Error(`Rows stand on ${numLeases.size} pages that are not in the tree`);
    if (numEvictable !== this.#evictable.size) throw new Error(`${this.#evictable.size} pages are listed to go, ${numEvictable} can`);
    if (numPages !== this.#numPages || bytes !== this.#bytes) {
      throw new Error(`${numPages} pages of ${bytes} bytes, counted ${this.#numPages} of ${this.#bytes}`);
    }
    if (bytes > this.maxBytes) throw new Error(`${bytes} bytes are held, ${this.maxBytes} are allowed`);
  }

  #leave(node: StoredPage): void {
    node.numLeases--;
    if (node.numLeases === 0 && node.children.size === 0) this.#evictable.add(node);
  }

  #makeRoom(numBytes: number): boolean {
    while (this.#bytes + numBytes > Math.min(this.maxBytes, this.limitBytes)) {
      const oldest = this.#oldest();
      if (oldest === null) return false;
      this.#evict(oldest);
    }
    return true;
  }

  #oldest(): StoredPage | null {
    let oldest: StoredPage | null = null;
    for (const node of this.#evictable) if (oldest === null || node.lastUse < oldest.lastUse) oldest = node;
    return oldest;
  }

  #evict(node: StoredPage): void {
    const { parent } = node;
    this.onEvict(node);
    this.#evictable.delete(node);
    parent?.children.delete(node.key);
    this.#bytes -= node.page?.bytes ?? 0;
    this.#numPages--;
    this.#totals.evictions++;
    node.page?.free();
    node.page = null;
    if (parent === null) return;
    if (parent.parent === null) this.#dropEmptyRoot(parent);
    else if (parent.children.size === 0 && parent.numLeases === 0) this.#evictable.add(parent);
  }

  /** Salts are as many as clients make up. */
  #dropEmptyRoot(root: StoredPage): void {
    const isUsed = root.children.size > 0 || this.#leases.values().some((lease) => lease.root === root);
    if (!isUsed) this.#roots.delete(root.key);
  }
}

/** A row's place in the tree: the pages of its own tokens, from the first on. They stay as long as the row. */
export class PrefixLease {
  readonly path: StoredPage[] = [];

  constructor(readonly cache: PrefixCache, readonly root: StoredPage) {}

  get numPages(): number {
    return this.path.length;
  }

  /** The stored pages that go on where the path ends, as far as they spell `tokens`, at most so many that the path would have `maxPages`. */
  ahead(tokens: Int32Array, maxPages: number): StoredPage[] {
    const found: StoredPage[] = [];
    let node: StoredPage | undefined = this.path.at(-1) ?? this.root;
    for (let index = this.numPages; index < maxPages; index++) {
      node = node.children.get(this.cache.keyOf(tokens, index));
      if (node === undefined) break;
      found.push(node);
    }
    return found;
  }

  /** Takes the path on through a stored page, the next one of `ahead`. */
  enter(node: StoredPage): void {
    this.cache.enter(node);
    this.path.push(node);
  }

  /** Stores the page of the tokens where the path ends, in place of one that may be there, and goes on through it. @returns false: no room. */
  add(tokens: Int32Array, page: BackendPage): boolean {
    const node = this.cache.store(this.path.at(-1) ?? this.root, this.cache.keyOf(tokens, this.numPages), page);
    if (node === null) return false;
    this.enter(node);
    return true;
  }

  close(): void {
    this.cache.close(this);
    this.path.length = 0;
  }
}
