/** A disk that answers when it is told to. */
import type { CoreRun } from "./requests.ts";
import type { PageImage } from "../../src/engine/backend.ts";
import { type DiskFigures, NO_DISK, type PageDisk } from "../../src/engine/disk/page_disk.ts";

export class FakeDisk implements PageDisk {
  onAnswer: () => void = () => {};
  isOpen = true;
  /** What is there: it outlives every engine. */
  readonly pages: Map<string, PageImage>;
  readonly removed: string[] = [];
  readonly touched: (readonly string[])[] = [];
  /** Keys in the order in which they were asked for and written. */
  readonly asked: string[] = [];
  readonly written: string[] = [];
  maxWriting = 2;
  isClosed = false;
  mostAsked = 0;
  readonly #reads: (() => void)[] = [];
  readonly #writes: (() => void)[] = [];

  constructor(pages = new Map<string, PageImage>()) {
    this.pages = pages;
  }

  get canWrite(): boolean {
    return this.#writes.length < this.maxWriting;
  }

  get numWriting(): number {
    return this.#writes.length;
  }

  get numReading(): number {
    return this.#reads.length;
  }

  read(key: string, answer: (image: PageImage | null) => void): void {
    this.asked.push(key);
    this.#reads.push(() => {
      const found = this.pages.get(key);
      answer(found === undefined ? null : { ...found, bytes: found.bytes.slice() });
    });
    this.mostAsked = Math.max(this.mostAsked, this.#reads.length);
  }

  write(key: string, image: PageImage): void {
    if (!this.canWrite) throw new Error("The disk takes no more");
    this.written.push(key);
    this.#writes.push(() => void this.pages.set(key, image));
  }

  /** Answers up to `count` reads, the oldest but `skipped` first. */
  answerReads(count = Infinity, skipped = 0): void {
    for (const answer of this.#reads.splice(skipped, count)) {
      answer();
      this.onAnswer();
    }
  }

  finishWrites(count = Infinity): void {
    for (const finish of this.#writes.splice(0, count)) {
      finish();
      this.onAnswer();
    }
  }

  remove(key: string): void {
    this.removed.push(key);
    this.pages.delete(key);
  }

  touch(keys: readonly string[]): void {
    this.touched.push(keys);
  }

  figures(): Omit<DiskFigures, "hitTokens"> {
    return NO_DISK;
  }

  close(): void {
    this.isClosed = true;
  }
}

/** Steps to the end, and until everything is written; the disk answers after each step. @throws {Error} when there is no end. */
export function finishWithDisk(run: CoreRun, disk: FakeDisk, afterStep = (): void => {}): void {
  for (let steps = 0; run.core.hasWork || !run.core.prefixes.isSettled; steps++) {
    if (steps === 5000) throw new Error("Rows or pages are left");
    if (run.core.hasWork) run.step();
    afterStep();
    disk.answerReads();
    disk.finishWrites();
    run.core.prefixes.writeBehind();
    run.core.prefixes.checkIntegrity();
  }
}
