/** Keeps a folder of pages within its size: the pages that were not used for longest go, of whichever model they are. */
import { statfs } from "node:fs/promises";
import { join } from "node:path";

/** Models' folders and pages, as they are named; nothing else in the folder is ever touched. */
const MODEL = /^[0-9a-f]{64}$/;
export const PAGE_SUFFIX = ".page";
const PAGE = /^[0-9a-f]{64}\.page$/;
/** A page that is being written, by a process that may have died meanwhile. */
export const PART_SUFFIX = ".part";
const PART = /^[0-9a-f]{64}\.[0-9a-f-]{36}\.part$/;
export const FOLDER_MODE = 0o700;
const STALE_PART_MS = 600_000;
/** Left free: a full disk makes trouble for everybody. */
const SPARE_BYTES = 256 * 2 ** 20;

/**
 * The folder is counted anew after this share of its size was written, for other processes write too; and then this share is made free. So two
 * writers never exceed the size together.
 */
const COUNT_SHARE = 1 / 16;
const FREE_SHARE = 1 / 8;

interface PageEntry {
  readonly path: string;
  readonly bytes: number;
  readonly usedMs: number;
}

export class PageSpace {
  #heldBytes = 0;
  #uncountedBytes = Infinity;

  /** @param freeBytes of the file system that a folder is on. */
  constructor(readonly folder: string, readonly maxBytes: number, readonly freeBytes: (folder: string) => Promise<number> = freeBytesOf) {}

  /** As they were counted last, and what was written since. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** What there is room within. */
  get limitText(): string {
    return `all pages may have ${this.maxBytes}, and ${SPARE_BYTES} of the file system stay free`;
  }

  /** Makes room for `numBytes`, which are written next. @returns false when they do not fit, whatever goes. */
  async reserve(numBytes: number): Promise<boolean> {
    if (numBytes > (1 - FREE_SHARE) * this.maxBytes) return false;
    if (this.#uncountedBytes + numBytes > COUNT_SHARE * this.maxBytes) {
      if (!await this.#trim(numBytes)) return false;
      this.#uncountedBytes = 0;
    }
    this.#uncountedBytes += numBytes;
    this.#heldBytes += numBytes;
    return true;
  }

  /**
   * Counts the folder anew, for others write and remove, too. Whoever allows more may have filled it beyond this size, which then is kept again.
   * Where it is full, nothing has to go before something is written.
   */
  async count(): Promise<void> {
    const pages = await this.#list();
    this.#heldBytes = sumBytes(pages);
    this.#uncountedBytes = 0;
    if (this.#heldBytes > this.maxBytes) await this.#remove(pages, (1 - FREE_SHARE) * this.maxBytes);
  }

  /** Writes and removes a file. @throws {Error} when nothing can be written, or no room is left for anything. */
  async probe(): Promise<void> {
    await Deno.mkdir(this.folder, { recursive: true, mode: FOLDER_MODE });
    const path = join(this.folder, `probe-${crypto.randomUUID()}`);
    try {
      await Deno.writeTextFile(path, "can be written");
    } finally {
      await removeIfThere(path).catch(() => {});
    }
    if (this.#heldBytes + await this.freeBytes(this.folder) < SPARE_BYTES) throw new Error(`There is no room: ${this.limitText}`);
  }

  /** Of bytes that were reserved and not written, or are gone. */
  release(numBytes: number): void {
    this.#heldBytes = Math.max(0, this.#heldBytes - numBytes);
  }

  /** @returns false when there is no room for so many bytes more. */
  async #trim(numBytes: number): Promise<boolean> {
    const pages = await this.#list();
    this.#heldBytes = sumBytes(pages);
    const spaceBytes = this.#heldBytes + await this.freeBytes(this.folder) - SPARE_BYTES;
    const targetBytes = Math.min((1 - FREE_SHARE) * this.maxBytes, spaceBytes) - numBytes;
    // All of them would not be enough: then they may as well stay.
    if (targetBytes < 0) return false;
    await this.#remove(pages, targetBytes);
    return this.#heldBytes <= targetBytes;
  }

  /** Removes those that were not used for longest, until the others take no more than `targetBytes`. What cannot be removed stays. */
  async #remove(pages: readonly PageEntry[], targetBytes: number): Promise<void> {
    for (const { path, bytes } of pages.toSorted((a, b) => a.usedMs - b.usedMs)) {
      if (this.#heldBytes <= targetBytes) return;
      const isGone = await removeIfThere(path).then(() => true, () => false);
      if (isGone) this.#heldBytes -= bytes;
    }
  }

  async #list(): Promise<PageEntry[]> {
    const pages: PageEntry[] = [];
    for (const model of await namesIn(this.folder, MODEL)) {
      const folder = join(this.folder, model);
      // What cannot be looked at counts for nothing: it is no reason to stop.
      for (const name of await namesIn(folder, /./).catch(() => [])) {
        const path = join(folder, name);
        const [isPage, isPart] = [PAGE.test(name), PART.test(name)];
        const info = isPage || isPart ? await Deno.lstat(path).catch(() => null) : null;
        if (!info?.isFile) continue;
        const usedMs = info.mtime?.getTime() ?? 0;
        if (isPage) pages.push({ path, bytes: info.size, usedMs });
        else if (Date.now() - usedMs > STALE_PART_MS) await removeIfThere(path).catch(() => {});
      }
    }
    return pages;
  }
}

function sumBytes(pages: readonly PageEntry[]): number {
  return pages.reduce((sum, { bytes }) => sum + bytes, 0);
}

async function namesIn(folder: string, pattern: RegExp): Promise<string[]> {
  try {
    return (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name).filter((name) => pattern.test(name));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Another process may have been faster. */
export async function removeIfThere(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** Infinity when this program may not know. */
async function freeBytesOf(folder: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    return Infinity;
  }
}
