import type { DiskOptions, DiskState, FromDisk, ToDisk } from "./disk_messages.ts";
import { discard } from "./discard.ts";
import { modelIdentity } from "./model_identity.ts";
import { PageFolder } from "./page_folder.ts";
import { PageSpace } from "./page_space.ts";

/** After a page could not be written none is for this long: a full disk does not become free by being asked. */
const RETRY_MS = 30_000;
/** How often the folder is counted, for other processes change it, too; less often where counting takes more than a hundredth of the time. */
const COUNT_MS = 30_000;
const COUNT_PAUSE = 100;

/** The worker's end of the message channel. */
export interface DiskPort {
  post(message: FromDisk, transfer: Transferable[]): void;
  /** Tells the operator. */
  warn(text: string): void;
  /** Calls `act` after `delayMs`. */
  later(act: () => void, delayMs: number): void;
}

/**
 * Reads as soon as it is asked; everything that changes files is done one after another. Never fails: without a usable folder there is nothing in
 * it. Only faults of writing stop the writing, and are told: a page that cannot be read is not there.
 */
export class DiskServer {
  #folder: Promise<PageFolder | null> = Promise.resolve(null);
  #state: DiskState = { numDamaged: 0, heldBytes: 0 };
  #changes: Promise<unknown> = Promise.resolve();
  #failedMs = -Infinity;
  #isFailing = false;

  constructor(readonly port: DiskPort, readonly nowMs: () => number = () => performance.now()) {}

  /** Settles when the message has been dealt with. */
  handle(message: ToDisk): Promise<void> {
    switch (message.type) {
      case "open":
        this.#folder = this.#open(message.options);
        return this.#folder.then((folder) => {
          this.port.post({ type: "opened", state: this.#state }, []);
          if (folder !== null) this.#countLater(folder, COUNT_MS);
        });
      case "read":
        return this.#read(message.id, message.key);
      case "write":
        return this.#inTurn(() => this.#write(message));
      case "remove":
        return this.#inTurn(async () => await (await this.#folder)?.remove(message.key));
      case "touch":
        return this.#inTurn(async () => await (await this.#folder)?.touch(message.keys));
    }
  }

  async #open({ folder, maxBytes, identity }: DiskOptions): Promise<PageFolder | null> {
    let pages: PageFolder | null = null;
    try {
      pages = new PageFolder(new PageSpace(folder, maxBytes), await modelIdentity(identity));
      // The size may be a smaller one than the last time. Pages that are there are read also where none can be written.
      await pages.space.count();
      this.#note(pages);
      await pages.space.probe();
    } catch (error) {
      this.#fail(error, pages !== null);
    }
    return pages;
  }

  async #read(id: number, key: string): Promise<void> {
    const folder = await this.#folder;
    const image = await folder?.read(key) ?? null;
    if (folder !== null) this.#note(folder);
    this.port.post({ type: "page", id, image, state: this.#state }, image === null ? [] : [image.bytes.buffer]);
  }

  async #write({ key, image }: ToDisk & { readonly type: "write" }): Promise<void> {
    const folder = await this.#folder;
    const isResting = this.nowMs() - this.#failedMs < RETRY_MS;
    const numBytes = isResting || folder === null ? null : await this.#attempt(() => folder.write(key, image));
    if (numBytes !== null && numBytes > 0) this.#isFailing = false;
    if (folder !== null) this.#note(folder);
    discard(image);
    this.port.post({ type: "written", numBytes, state: this.#state }, []);
  }

  #countLater(folder: PageFolder, delayMs: number): void {
    this.port.later(() => void this.#inTurn(() => this.#count(folder)), delayMs);
  }

  async #count(folder: PageFolder): Promise<void> {
    const startMs = this.nowMs();
    const known = this.#state.heldBytes;
    // A folder that cannot be listed shows when something is written.
    await folder.space.count().catch(() => {});
    this.#note(folder);
    if (this.#state.heldBytes !== known) this.port.post({ type: "counted", state: this.#state }, []);
    this.#countLater(folder, Math.max(COUNT_MS, COUNT_PAUSE * (this.nowMs() - startMs)));
  }

  /** null, and a warning, when it does not work. */
  async #attempt<T>(write: () => Promise<T>): Promise<T | null> {
    try {
      return await write();
    } catch (error) {
      this.#fail(error, true);
      return null;
    }
  }

  #note({ numDamaged, space }: PageFolder): void {
    this.#state = { numDamaged, heldBytes: space.heldBytes };
  }

  /** Tells it once, until it has worked again. */
  #fail(error: unknown, isUsable: boolean): void {
    this.#failedMs = this.nowMs();
    if (this.#isFailing) return;
    this.#isFailing = true;
    const what = isUsable
      ? "No pages can be written to the prefix cache on the disk, those that are there are used"
      : "The prefix cache on the disk does not work, prefixes stay in memory alone";
    this.port.warn(`${what}: ${error instanceof Error ? error.message : error}`);
  }

  #inTurn(act: () => Promise<void>): Promise<void> {
    const done = this.#changes.then(act);
    this.#changes = done;
    return done;
  }
}
