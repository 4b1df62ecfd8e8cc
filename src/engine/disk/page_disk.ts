/** Pages that outlive the process, as the engine's thread sees them. */
import type { PageImage } from "../backend.ts";

/** Pages on their way to the disk at most: each is a copy of its own. */
export const MAX_WRITING = 2;

/** Running totals and gauges. */
export interface DiskFigures {
  /** Prompt tokens whose pages came from the disk. */
  readonly hitTokens: number;
  readonly readBytes: number;
  readonly writtenBytes: number;
  /** Pages that were not written: memory needed their place before their turn came, or the disk did not take them. */
  readonly numDropped: number;
  /** Pages that were not what had been written, and were removed. */
  readonly numDamaged: number;
  /** Bytes of all pages in the folder, whoever wrote them, as they were counted last. */
  readonly heldBytes: number;
}

export const NO_DISK: DiskFigures = { hitTokens: 0, readBytes: 0, writtenBytes: 0, numDropped: 0, numDamaged: 0, heldBytes: 0 };

/**
 * Where pages go and come from, by keys that stand for everything before them and in them (`page_key.ts`). Nothing waits: answers come in
 * later turns of the event loop. `DiskClient` is the real one.
 */
export interface PageDisk {
  /** Called after every answer, when the disk has been opened, and when its figures have changed. */
  onAnswer: () => void;
  /** From now on answers come as fast as the disk is. */
  readonly isOpen: boolean;
  /** Asks for a page; null is the answer when it is not there, damaged, or cannot be read. */
  read(key: string, answer: (image: PageImage | null) => void): void;
  /** false: enough pages are on their way to the disk. */
  readonly canWrite: boolean;
  /** Takes the image's bytes away from the caller. Only while `canWrite`. */
  write(key: string, image: PageImage): void;
  /** Pages on their way to the disk. */
  readonly numWriting: number;
  /** A page that came from the disk is of no use. */
  remove(key: string): void;
  /** The pages from the first one of a prefix on were used. */
  touch(keys: readonly string[]): void;
  /** What the disk counts; the rest is the engine's. */
  figures(): Omit<DiskFigures, "hitTokens">;
  /** At once; what is on its way may be lost. */
  close(): void;
}
