import { BackendError, type ModelBackend, type PageImage } from "./backend.ts";
import { discard } from "./disk/discard.ts";
import { type DiskFigures, MAX_WRITING, type PageDisk } from "./disk/page_disk.ts";
import { childKey, rootKey } from "./disk/page_key.ts";
import { PAGE_TOKENS, type PrefixCache, type StoredPage } from "./prefix_cache.ts";
import type { RowPrefix } from "./row_prefix.ts";

/** An open disk that was asked and has said nothing for this long is not waited for: rows compute what they have not got. */
export const STALL_MS = 1_000;
/** Nor does a row wait for longer than this in all, also for a disk that is not open yet. */
const MAX_WAIT_MS = 5_000;
/** Memory for pages that have been asked for and are not in the cache yet, of all rows; one may always be asked for. */
const MAX_ASKED_BYTES = 16 * 2 ** 20;
/** The worker that reads and writes, without pages, as measured. */
const WORKER_BYTES = 32 * 2 ** 20;

/** What the disk takes of memory: its worker, and the pages that are on their way. */
export function diskMemoryBytes(facts: PageFacts): number {
  return WORKER_BYTES + (MAX_WRITING + maxAskedPages(facts)) * pageBytes(facts);
}

type PageFacts = Pick<ModelBackend["facts"], "kvBytesPerToken" | "kvBytesPerSlot">;

function maxAskedPages(facts: PageFacts): number {
  return Math.max(1, Math.floor(MAX_ASKED_BYTES / pageBytes(facts)));
}

/** Of one with the states of recurrent layers, which not every page has. */
function pageBytes({ kvBytesPerToken, kvBytesPerSlot }: PageFacts): number {
  return PAGE_TOKENS * kvBytesPerToken + (kvBytesPerSlot ?? 0);
}

/** What one row reads of the disk. It does so once, when it joins. */
interface Reading {
  readonly startMs: number;
  /** The page that is asked for next, and the key of the one before it. */
  nextIndex: number;
  lastKey: string;
  /** Pages from this one on are not wanted, or not to be had. */
  end: number;
  readonly asked: Set<number>;
  readonly arrived: Map<number, { readonly key: string; readonly image: PageImage }>;
}

/**
 * Keeps the pages of a prefix cache on a disk, too, and brings them back. Pages are written behind, in the order in which they were stored, as
 * many at a time as the disk takes; one that is evicted before its turn is lost. A page that comes from the disk becomes one of the cache's, and
 * rows find it there.
 */
export class PrefixDisk {
  readonly #keys = new WeakMap<StoredPage, string>();
  readonly #unwritten = new Set<StoredPage>();
  /** null: the row has read all that there is. */
  readonly #readings = new Map<RowPrefix, Reading | null>();
  readonly #maxAsked: number;
  #numAsked = 0;
  /** Pages that have come, and that their rows have not taken in yet. */
  #numArrived = 0;
  /** Since then the open disk has been asked and has not answered. */
  #silentSinceMs = 0;
  #wasOpen = false;
  #isInserting = false;
  #hitTokens = 0;
  #numLost = 0;

  constructor(
    readonly cache: PrefixCache,
    readonly backend: Pick<ModelBackend, "facts" | "exportPage" | "importPage">,
    readonly disk: PageDisk,
    readonly nowMs: () => number,
  ) {
    this.#maxAsked = maxAskedPages(backend.facts);
    cache.onStore = (node) => void (this.#isInserting || this.#unwritten.add(node));
    cache.onEvict = (node) => void (this.#numLost += Number(this.#unwritten.delete(node)));
  }

  figures(): DiskFigures {
    const figures = this.disk.figures();
    return { ...figures, hitTokens: this.#hitTokens, numDropped: figures.numDropped + this.#numLost };
  }

  /** Nothing is left to write, or nothing can be written any more. */
  get isSettled(): boolean {
    return this.disk.numWriting === 0 && (this.#unwritten.size === 0 || !this.disk.canWrite);
  }

  /** Hands the disk as many pages as it takes. To be called after every step and every answer of the disk. */
  write(): void {
    for (const node of this.#unwritten) {
      if (!this.disk.canWrite) return;
      this.#unwritten.delete(node);
      try {
        if (node.page !== null) this.disk.write(this.#keyOf(node), this.backend.exportPage(node.page));
      } catch {
        // Without memory for the copy.
        this.#numLost++;
      }
    }
  }

  /** Puts what has come for the row into the cache, at most `maxPages`, where its path goes on. */
  takeIn(row: RowPrefix, maxPages: number): void {
    const reading = this.#readings.get(row) ?? null;
    for (let count = 0; reading !== null && count < maxPages; count++) {
      const ahead = row.ahead();
      const index = row.numPages + ahead.length;
      // Another row may have brought them.
      this.#drop(reading, (known) => known < index);
      const next = reading.arrived.get(index);
      if (next === undefined) return;
      if (!this.#insert(ahead.at(-1) ?? row.pathEnd, row.keyOf(index), next.key, next.image)) reading.end = index;
      this.#drop(reading, (known) => known === index || known >= reading.end);
    }
  }

  /** Whether the row has to wait for the disk. From the first call on it is asked for the pages that the row's path goes on with. */
  isReading(row: RowPrefix, wantsHistory: boolean): boolean {
    const known = this.#readings.get(row);
    if (known === null) return false;
    const reading = known ?? this.#begin(row);
    if (!this.#isLate(reading)) this.#ask(row, reading, wantsHistory);
    const isOpen = (index: number): boolean => index < reading.end;
    const isWaiting = !this.#isLate(reading) &&
      (isOpen(reading.nextIndex) || reading.asked.values().some(isOpen) || reading.arrived.keys().some(isOpen));
    if (!isWaiting) this.#end(reading);
    this.#readings.set(row, isWaiting ? reading : null);
    return isWaiting;
  }

  /** The row is going: the pages of its path have been used. */
  leave(row: RowPrefix): void {
    const reading = this.#readings.get(row) ?? null;
    if (reading !== null) this.#end(reading);
    this.#readings.delete(row);
    if (row.numPages > 0) this.disk.touch(row.path.map((node) => this.#keyOf(node)));
  }

  #begin(row: RowPrefix): Reading {
    const ahead = row.ahead();
    return {
      startMs: this.nowMs(),
      nextIndex: row.numPages + ahead.length,
      lastKey: this.#keyOf(ahead.at(-1) ?? row.pathEnd),
      end: row.maxLoaded,
      asked: new Set(),
      arrived: new Map(),
    };
  }

  #isLate({ startMs }: Reading): boolean {
    const nowMs = this.nowMs();
    if (!this.#wasOpen) {
      this.#wasOpen = this.disk.isOpen;
      this.#silentSinceMs = nowMs;
    }
    return nowMs - startMs > MAX_WAIT_MS || this.#numAsked > 0 && nowMs - this.#silentSinceMs > STALL_MS;
  }

  #ask(row: RowPrefix, reading: Reading, wantsHistory: boolean): void {
    while (reading.nextIndex < reading.end && this.#numAsked + this.#numArrived < this.#maxAsked) {
      const index = reading.nextIndex++;
      const key = reading.lastKey = childKey(reading.lastKey, row.keyOf(index));
      if (this.#numAsked++ === 0) this.#silentSinceMs = this.nowMs();
      reading.asked.add(index);
      this.disk.read(key, (image) => {
        this.#numAsked--;
        this.#silentSinceMs = this.nowMs();
        reading.asked.delete(index);
        if (image === null || index >= reading.end || wantsHistory && !image.hasHistory) {
          if (image !== null) discard(image);
          reading.end = Math.min(reading.end, index);
          return this.#drop(reading, (known) => known >= reading.end);
        }
        this.#numArrived++;
        reading.arrived.set(index, { key, image });
      });
    }
  }

  /** The row waits no longer. */
  #end(reading: Reading): void {
    reading.end = 0;
    this.#drop(reading, () => true);
  }

  /** Gives back the memory of pages that have come and are not needed any more. */
  #drop({ arrived }: Reading, isDone: (index: number) => boolean): void {
    for (const [index, { image }] of arrived) {
      if (!isDone(index)) continue;
      discard(image);
      arrived.delete(index);
      this.#numArrived--;
    }
  }

  /** @returns false: nothing that comes behind it can be used. */
  #insert(parent: StoredPage, tokens: string, key: string, image: PageImage): boolean {
    try {
      if (image.numTokens !== this.cache.pageTokens) throw new BackendError(`A page of ${image.numTokens} tokens is of no use`, false);
      const page = this.backend.importPage(image);
      this.#isInserting = true;
      const node = this.cache.insert(parent, tokens, page);
      if (node === null) page.free();
      else this.#keys.set(node, key);
      this.#hitTokens += node === null ? 0 : image.numTokens;
      return node !== null;
    } catch (error) {
      if (!(error instanceof BackendError && error.isOutOfMemory)) this.disk.remove(key);
      return false;
    } finally {
      this.#isInserting = false;
    }
  }

  #keyOf(node: StoredPage): string {
    const known = this.#keys.get(node);
    if (known !== undefined) return known;
    const key = node.parent === null ? rootKey(node.key, this.cache.pageTokens) : childKey(this.#keyOf(node.parent), node.key);
    this.#keys.set(node, key);
    return key;
  }
}
