import { join } from "node:path";
import type { PageImage, PageParts } from "../backend.ts";
import { DamagedPageError, pageFileBytes, type PageName, readPage, readParts, writePage } from "./page_file.ts";
import { PAGE_SUFFIX, type PageSpace, PART_SUFFIX, removeIfThere } from "./page_space.ts";

const FOLDER_MODE = 0o700;

/** Pages of one model in a folder that other models and processes may use at the same time. */
export class PageFolder {
  #numDamaged = 0;

  /** @param model what `modelIdentity` gives. */
  constructor(readonly space: PageSpace, readonly model: string) {}

  /** Files that were not what their names say. */
  get numDamaged(): number {
    return this.#numDamaged;
  }

  /** null when the page is not there. A file that is no such page is removed. @throws {Error} of the file system. */
  async read(key: string): Promise<PageImage | null> {
    return await this.#look(key, readPage);
  }

  /** @returns the bytes written: 0 when the page is there already. @throws {Error} of the file system, or because there is no room. */
  async write(key: string, image: PageImage): Promise<number> {
    const found = await this.#look(key, readParts);
    if (found !== null && !lacks(found, image)) return 0;
    const numBytes = pageFileBytes(image);
    if (!await this.space.reserve(numBytes)) throw new Error(`There is no room for ${numBytes} bytes: ${this.space.limitText}`);
    const path = this.#path(key);
    const part = `${path.slice(0, -PAGE_SUFFIX.length)}.${crypto.randomUUID()}${PART_SUFFIX}`;
    try {
      await Deno.mkdir(join(this.space.folder, this.model), { recursive: true, mode: FOLDER_MODE });
      await writePage(part, this.#name(key), image);
      // Whoever reads sees all of it or nothing.
      await Deno.rename(part, path);
      return numBytes;
    } catch (error) {
      this.space.release(numBytes);
      await removeIfThere(part).catch(() => {});
      throw error;
    }
  }

  /** The page is of no use. */
  async remove(key: string): Promise<void> {
    this.#numDamaged++;
    await removeIfThere(this.#path(key));
  }

  /**
   * Pages from the first of a prefix on were used. Those behind others count as used a little earlier: nothing can be made of them without
   * those before them, so they are the first to go.
   */
  async touch(keys: readonly string[]): Promise<void> {
    const nowMs = Date.now();
    for (const [i, key] of keys.entries()) {
      const used = new Date(nowMs - i);
      await Deno.utime(this.#path(key), used, used).catch(() => {});
    }
  }

  async #look<T extends PageParts>(key: string, read: (path: string, name: PageName) => Promise<T>): Promise<T | null> {
    try {
      return await read(this.#path(key), this.#name(key));
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return null;
      if (!(error instanceof DamagedPageError)) throw error;
      await this.remove(key);
      return null;
    }
  }

  #name(key: string): PageName {
    return { model: this.model, key };
  }

  #path(key: string): string {
    return join(this.space.folder, this.model, `${key}${PAGE_SUFFIX}`);
  }
}

function lacks(found: PageParts, wanted: PageParts): boolean {
  return wanted.hasState && !found.hasState || wanted.hasHistory && !found.hasHistory;
}
