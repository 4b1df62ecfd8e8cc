import type { PageImage } from "../backend.ts";
import type { EngineOptions } from "../messages.ts";
import type { DiskOptions, DiskState, FromDisk, ToDisk } from "./disk_messages.ts";
import { type DiskFigures, MAX_WRITING, type PageDisk } from "./page_disk.ts";

/** The disk of an engine; null when it has none. @param build what the native library tells about itself. */
export function openPrefixDisk(
  { prefixDisk, prefixCacheBytes = 0, libraryPath, model, isBatchInvariant, speculation }: EngineOptions,
  build: Readonly<Record<string, string>>,
): PageDisk | null {
  if (prefixDisk === undefined || prefixCacheBytes === 0) return null;
  const parts = { ...(isBatchInvariant === undefined ? {} : { isBatchInvariant }), ...(speculation === undefined ? {} : { speculation }) };
  return new DiskClient({ ...prefixDisk, identity: { libraryPath, build, model, ...parts } });
}

/** The disk in a worker of its own. When that dies, there is nothing on the disk. */
export class DiskClient implements PageDisk {
  onAnswer: () => void = () => {};
  readonly #worker = new Worker(new URL("./worker.ts", import.meta.url).href, { type: "module", name: "rowlock-disk" });
  readonly #answers = new Map<number, (image: PageImage | null) => void>();
  readonly #totals = { readBytes: 0, writtenBytes: 0, numDropped: 0 };
  #state: DiskState = { numDamaged: 0, heldBytes: 0 };
  #numReads = 0;
  #numWriting = 0;
  #isOpen = false;
  #isDead = false;

  constructor(options: DiskOptions) {
    this.#worker.onmessage = (event: MessageEvent<FromDisk>) => this.#receive(event.data);
    this.#worker.onerror = (event) => {
      // Otherwise the engine would fail too.
      event.preventDefault();
      this.#die(event.message);
    };
    this.#post({ type: "open", options });
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  get canWrite(): boolean {
    return this.#numWriting < MAX_WRITING && !this.#isDead;
  }

  get numWriting(): number {
    return this.#numWriting;
  }

  read(key: string, answer: (image: PageImage | null) => void): void {
    const id = this.#numReads++;
    this.#answers.set(id, answer);
    if (this.#isDead) queueMicrotask(() => this.#answer(id, null));
    else this.#post({ type: "read", id, key });
  }

  write(key: string, image: PageImage): void {
    this.#numWriting++;
    this.#post({ type: "write", key, image }, [image.bytes.buffer]);
  }

  remove(key: string): void {
    this.#post({ type: "remove", key });
  }

  touch(keys: readonly string[]): void {
    this.#post({ type: "touch", keys });
  }

  figures(): Omit<DiskFigures, "hitTokens"> {
    return { ...this.#totals, ...this.#state };
  }

  close(): void {
    this.#isDead = true;
    this.#worker.terminate();
  }

  #post(message: ToDisk, transfer: Transferable[] = []): void {
    if (!this.#isDead) this.#worker.postMessage(message, transfer);
  }

  #receive(message: FromDisk): void {
    this.#state = message.state;
    switch (message.type) {
      case "opened":
        this.#isOpen = true;
        return this.onAnswer();
      case "counted":
        return this.onAnswer();
      case "page":
        this.#totals.readBytes += message.image?.bytes.length ?? 0;
        return this.#answer(message.id, message.image);
      case "written":
        this.#numWriting--;
        if (message.numBytes === null) this.#totals.numDropped++;
        this.#totals.writtenBytes += message.numBytes ?? 0;
        return this.onAnswer();
    }
  }

  #answer(id: number, image: PageImage | null): void {
    const answer = this.#answers.get(id);
    this.#answers.delete(id);
    answer?.(image);
    this.onAnswer();
  }

  #die(reason: string): void {
    console.error(`rowlock: The prefix cache on the disk is lost, prefixes stay in memory alone: ${reason}`);
    this.close();
    this.#numWriting = 0;
    for (const id of [...this.#answers.keys()]) this.#answer(id, null);
  }
}
