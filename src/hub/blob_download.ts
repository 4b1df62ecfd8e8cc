/** Brings one file into the cache: goes on where an earlier attempt broke off, and lets nothing in that has not the promised size and hash. */
import { createHash, type Hash } from "node:crypto";
import { dirname } from "node:path";
import { withFileLock } from "./file_lock.ts";
import type { HubClient, RemoteFile } from "./hub_client.ts";
import { HubError } from "./hub_error.ts";
import type { Progress } from "./progress.ts";
import { fileSize, type RepositoryCache } from "./repository_cache.ts";

export interface BlobSource {
  readonly client: HubClient;
  readonly cache: RepositoryCache;
  readonly commit: string;
}

/** Another process may fetch the same file, Python's too: it waits here, or this one does, and finds it done. */
export async function downloadBlob(source: BlobSource, file: RemoteFile, progress: Progress): Promise<void> {
  const path = source.cache.blobPath(file.hash);
  if (await fileSize(path) === file.numBytes) return;
  await Deno.mkdir(dirname(path), { recursive: true });
  const onWait = (): void => progress.note(`Another process is fetching ${file.path}; waiting for it`);
  await withFileLock(source.cache.lockPath(file.hash), onWait, async () => {
    if (await fileSize(path) === file.numBytes) return;
    const partial = `${path}.incomplete`;
    const wasResumed = await new Transfer(source, file, progress, partial).run();
    if (wasResumed === "wrong resumed") await new Transfer(source, file, progress, partial).run();
    await Deno.rename(partial, path);
  });
}

class Transfer {
  readonly #source: BlobSource;
  readonly #file: RemoteFile;
  readonly #progress: Progress;
  readonly #path: string;
  #hash: Hash;
  #numDone = 0;

  constructor(source: BlobSource, file: RemoteFile, progress: Progress, path: string) {
    this.#source = source;
    this.#file = file;
    this.#progress = progress;
    this.#path = path;
    this.#hash = newHash(file);
  }

  /**
   * @returns "wrong resumed" when the whole has the wrong hash and its beginning came from an earlier process: that is worth one more try.
   * @throws {HubError} when the hub does not deliver what it has promised; nothing wrong is left behind.
   */
  async run(): Promise<"ok" | "wrong resumed"> {
    using output = await Deno.open(this.#path, { create: true, read: true, write: true });
    const numFound = await this.#takeExisting(output);
    await this.#receiveAll(output);
    const found = this.#hash.digest("hex");
    await output.sync();
    if (found === this.#file.hash) return "ok";
    await Deno.remove(this.#path);
    if (numFound > 0) return "wrong resumed";
    throw new HubError(`${this.#name} has the hash ${found}, expected ${this.#file.hash}; it was deleted`);
  }

  get #name(): string {
    return `${this.#source.cache.repository}/${this.#file.path}`;
  }

  /** What an interrupted transfer has left counts, as long as it is no longer than the file. */
  async #takeExisting(output: Deno.FsFile): Promise<number> {
    if ((await output.stat()).size > this.#file.numBytes) await output.truncate(0);
    const buffer = new Uint8Array(1 << 20);
    for (let count = await output.read(buffer); count !== null; count = await output.read(buffer)) this.#count(buffer.subarray(0, count));
    return this.#numDone;
  }

  #count(bytes: Uint8Array): void {
    this.#hash.update(bytes);
    this.#numDone += bytes.length;
    this.#progress.advance(this.#file.path, this.#numDone, this.#file.numBytes, "bytes");
  }

  async #startOver(output: Deno.FsFile): Promise<void> {
    await output.truncate(0);
    await output.seek(0, Deno.SeekMode.Start);
    this.#hash = newHash(this.#file);
    this.#numDone = 0;
  }

  /** A transfer that breaks off is taken up again for as long as each attempt brings something. */
  async #receiveAll(output: Deno.FsFile): Promise<void> {
    const { client } = this.#source;
    let numFruitless = 0;
    // A hub that has to be read from the beginning each time must get further each time, or this would never end.
    let numBest = this.#numDone;
    while (this.#numDone < this.#file.numBytes) {
      const reason = await this.#receive(output);
      numFruitless = this.#numDone > numBest ? 0 : numFruitless + 1;
      numBest = Math.max(numBest, this.#numDone);
      if (this.#numDone >= this.#file.numBytes) return;
      if (numFruitless >= client.options.numAttempts) {
        throw new HubError(`${this.#name} broke off at ${this.#numDone} of ${this.#file.numBytes} bytes: ${reason}; run it again to go on`);
      }
      await client.pause(numFruitless + 1);
    }
  }

  /** @returns why it ended. */
  async #receive(output: Deno.FsFile): Promise<string> {
    const { client, cache, commit } = this.#source;
    const silence = new AbortController();
    const response = await client.open(cache.repository, commit, this.#file.path, this.#numDone, silence.signal);
    if (response.status === 416) {
      await response.body?.cancel();
      return "the hub says that the file ends there";
    }
    if (!this.#continues(response)) await this.#startOver(output);
    try {
      await this.#copy(response, output, silence);
      return "the hub sent less than it promised";
    } catch (error) {
      if (error instanceof HubError) throw error;
      return (error as Error).message;
    }
  }

  /** Whether the answer begins where this transfer is. */
  #continues({ status, headers }: Response): boolean {
    if (this.#numDone === 0) return true;
    const [, start, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers.get("content-range") ?? "") ?? [];
    return status === 206 && Number(start) === this.#numDone && (total === "*" || Number(total) === this.#file.numBytes);
  }

  async #copy(response: Response, output: Deno.FsFile, silence: AbortController): Promise<void> {
    const { stallTimeoutMs } = this.#source.client.options;
    const stalled = (): void => silence.abort(new Error(`nothing came for ${stallTimeoutMs} ms`));
    let timer = setTimeout(stalled, stallTimeoutMs);
    try {
      for await (const chunk of response.body ?? []) {
        clearTimeout(timer);
        timer = setTimeout(stalled, stallTimeoutMs);
        if (this.#numDone + chunk.length > this.#file.numBytes) await this.#failTooLong();
        for (let numWritten = 0; numWritten < chunk.length;) numWritten += await output.write(chunk.subarray(numWritten));
        this.#count(chunk);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async #failTooLong(): Promise<never> {
    await Deno.remove(this.#path);
    throw new HubError(`${this.#name} is longer than the ${this.#file.numBytes} bytes that the hub has promised; it was deleted`);
  }
}

/** Git's hash of a file begins with its kind and size. */
function newHash({ hash, numBytes }: RemoteFile): Hash {
  return hash.length === 64 ? createHash("sha256") : createHash("sha1").update(`blob ${numBytes}\0`);
}
