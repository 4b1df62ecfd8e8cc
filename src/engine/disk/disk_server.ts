import type { DiskOptions, DiskState, FromDisk, ToDisk } from "./disk_messages.ts";
import { modelIdentity } from "./model_identity.ts";
import { PageFolder } from "./page_folder.ts";
import { PageSpace } from "./page_space.ts";

/** After an error of the file system nothing is written for this long: a full disk does not become free by being asked. */
const RETRY_MS = 30_000;

/** The worker's end of the message channel. */
export interface DiskPort {
  post(message: FromDisk, transfer: Transferable[]): void;
  /** Tells the operator. */
  warn(text: string): void;
}

/** Reads as soon as it is asked; everything that changes files is done one after another. Never fails: without a usable folder there is nothing in it. */
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
        return this.#folder.then(() => this.port.post({ type: "opened", state: this.#state }, []));
      case "read":
        return this.#read(message.id, message.key);
      case "write":
        return this.#inTurn(() => this.#write(message));
      case "remove":
        return this.#inTurn(async () => void await this.#attempt((folder) => folder.remove(message.key)));
      case "touch":
        return this.#inTurn(async () => void await this.#attempt((folder) => folder.touch(message.keys)));
    }
  }

  async #open({ folder, maxBytes, identity }: DiskOptions): Promise<PageFolder | null> {
    let pages: PageFolder | null = null;
    try {
      pages = new PageFolder(new PageSpace(folder, maxBytes), await modelIdentity(identity));
      // The size may be a smaller one than the last time.
      await pages.space.reserve(0);
      this.#note(pages);
    } catch (error) {
      this.#fail(error);
    }
    return pages;
  }

  async #read(id: number, key: string): Promise<void> {
    const image = await this.#attempt((folder) => folder.read(key));
    this.port.post({ type: "page", id, image, state: this.#state }, image === null ? [] : [image.bytes.buffer]);
  }

  async #write({ key, image }: ToDisk & { readonly type: "write" }): Promise<void> {
    const isResting = this.nowMs() - this.#failedMs < RETRY_MS;
    const numBytes = isResting ? null : await this.#attempt((folder) => folder.write(key, image));
    if (numBytes !== null && numBytes > 0) this.#isFailing = false;
    this.port.post({ type: "written", numBytes, state: this.#state }, []);
  }

  /** null, and a warning, when it does not work. */
  async #attempt<T>(act: (folder: PageFolder) => Promise<T>): Promise<T | null> {
    const folder = await this.#folder;
    if (folder === null) return null;
    try {
      return await act(folder);
    } catch (error) {
      this.#fail(error);
      return null;
    } finally {
      this.#note(folder);
    }
  }

  #note({ numDamaged, space }: PageFolder): void {
    this.#state = { numDamaged, heldBytes: space.heldBytes };
  }

  /** Tells it once, until it has worked again. */
  #fail(error: unknown): void {
    this.#failedMs = this.nowMs();
    if (this.#isFailing) return;
    this.#isFailing = true;
    this.port.warn(
      `The prefix cache on the disk does not work, prefixes stay in memory alone: ${error instanceof Error ? error.message : error}`,
    );
  }

  #inTurn(act: () => Promise<void>): Promise<void> {
    const done = this.#changes.then(act);
    this.#changes = done;
    return done;
  }
}
