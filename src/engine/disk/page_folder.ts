import { join } from "node:path";
import type { PageImage, PageParts } from "../backend.ts";
import { DamagedPageError, pageFileBytes, type PageName, readPage, readParts, writePage } from "./page_file.ts";
import { FOLDER_MODE, PAGE_SUFFIX, type PageSpace, PART_SUFFIX, removeIfThere } from "./page_space.ts";

/** Pages of one model in a folder that other models and processes may use at the same time. */
export class PageFolder {
  #numDamaged = 0;

  /** @param model what `modelIdentity` gives. */
  constructor(readonly space: PageSpace, readonly model: string) {}

  /** Files that were not what their names say. */
  get numDamaged(): number {
    return this.#numDamaged;
  }

  /** null when the page is not there, or cannot be read. What is no such page is removed. Never fails. */
  async read(key: string): Promise<PageImage | null> {
    return await this.#look(key, readPage);
  }

  /**
   * @returns the bytes written: 0 when the page is there already, null when something else keeps its place.
   * @throws {Error} of the file system, or because there is no room.
   */
  async write(key: string, image: PageImage): Promise<number | null> {
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
      if (await isFolder(path)) return null;
      throw error;
    }
  }

  /** The page is of no use. What cannot be removed, like a folder with something in it, stays. */
  async remove(key: string): Promise<void> {
    this.#numDamaged++;
    await removeIfThere(this.#path(key)).catch(() => {});
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
    const path = this.#path(key);
    try {
      // Not by opening it: that waits for ever at a pipe.
      if (!(await Deno.lstat(path)).isFile) throw new DamagedPageError(`${path} is not a file`);
      return await read(path, this.#name(key));
    } catch (error) {
      if (error instanceof DamagedPageError || isBadSector(error)) await this.remove(key);
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

async function isFolder(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(({ isDirectory }) => isDirectory, () => false);
}

/** The page is lost. Other errors, like too many open files, do not tell anything about it. */
function isBadSector(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "EIO";
}

function lacks(found: PageParts, wanted: PageParts): boolean {
  return wanted.hasState && !found.hasState || wanted.hasHistory && !found.hasHistory;
}
