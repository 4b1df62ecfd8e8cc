/** A repository's model as files on this machine: from the cache, or fetched into it. */
import { join } from "node:path";
import { downloadBlob } from "./blob_download.ts";
import { checkSpace, freeBytes } from "./disk_space.ts";
import { HubClient, type HubClientOptions, type RemoteFile, type Revision } from "./hub_client.ts";
import { HubError } from "./hub_error.ts";
import { type HubSettings, hubSettings } from "./hub_settings.ts";
import { formatReference, type HubReference } from "./model_reference.ts";
import { chooseFiles, type NeededFiles, shardsOfIndex } from "./needed_files.ts";
import { numberedParts } from "./numbered_parts.ts";
import { type Progress, SILENT } from "./progress.ts";
import { fileSize, RepositoryCache } from "./repository_cache.ts";

export interface FetchOptions {
  readonly settings?: HubSettings;
  readonly progress?: Progress;
  /** Asks the hub for the newest commit even if the cache has all that is needed. @default false */
  readonly isUpdate?: boolean;
  readonly client?: HubClientOptions;
  /** Bytes free below a folder. */
  readonly freeBytes?: typeof freeBytes;
}

/**
 * Path of the model's folder or GGUF file. What the cache has is used without asking the hub, unless `isUpdate`.
 * @throws {HubError} when it cannot be had, or when it is not clear which file is meant.
 */
export async function fetchModel(reference: HubReference, options: FetchOptions = {}): Promise<string> {
  const { settings = hubSettings(), progress = SILENT } = options;
  const cache = new RepositoryCache(settings.cache, reference.repository);
  const cached = await findCached(cache, reference);
  if (cached !== null && cached.isWhole && !options.isUpdate) return cached.path;
  if (settings.isOffline) {
    if (cached !== null) return cached.path;
    throw new HubError(`${formatReference(reference)} is not in ${settings.cache}, and HF_HUB_OFFLINE forbids to fetch it`);
  }
  const client = new HubClient(settings, options.client);
  try {
    return await new Fetch(client, cache, reference, options.freeBytes ?? freeBytes, progress).run();
  } catch (error) {
    if (cached === null || !(error instanceof HubError) || !error.isUnreachable) throw error;
    progress.note(`${error.message}; using what is in the cache`);
    return cached.path;
  }
}

interface CachedModel {
  readonly path: string;
  /** With a tokenizer: without one it may be that only a part was ever fetched. */
  readonly isWhole: boolean;
}

/** null when the cache has not all of the weights. */
async function findCached(cache: RepositoryCache, reference: HubReference): Promise<CachedModel | null> {
  const commit = await cache.commitOf(reference.revision);
  if (commit === null) return null;
  const paths = await cache.filesOf(commit);
  const needed = tryChoose(reference, paths);
  if (needed === null) return null;
  if (needed.type === "gguf") return { path: cache.snapshotPath(commit, needed.path), isWhole: true };
  const weights = needed.index === null
    ? needed.weights.flatMap((path) => numberedParts(path))
    : shardsOfIndex(reference.repository, await Deno.readTextFile(cache.snapshotPath(commit, needed.index)));
  if (!weights.every((path) => paths.includes(path))) return null;
  return { path: cache.snapshotFolder(commit), isWhole: needed.settings.includes("tokenizer.json") };
}

function tryChoose({ repository, filePattern }: HubReference, paths: readonly string[]): NeededFiles | null {
  try {
    return chooseFiles(repository, paths, filePattern);
  } catch (error) {
    if (error instanceof HubError) return null;
    throw error;
  }
}

class Fetch {
  constructor(
    readonly client: HubClient,
    readonly cache: RepositoryCache,
    readonly reference: HubReference,
    readonly freeBytes: (folder: string) => Promise<number>,
    readonly progress: Progress,
  ) {}

  async run(): Promise<string> {
    const { repository, revision, filePattern } = this.reference;
    const found = await this.client.revision(repository, revision);
    const needed = chooseFiles(repository, [...found.files.keys()], filePattern);
    await this.#bringAll(found, needed);
    await this.cache.writeRef(revision, found.commit);
    return needed.type === "gguf" ? this.cache.snapshotPath(found.commit, needed.path) : this.cache.snapshotFolder(found.commit);
  }

  async #bringAll(revision: Revision, needed: NeededFiles): Promise<void> {
    if (needed.type === "gguf") return await this.#bring(revision, needed.paths);
    // Weights come last: where they are, everything else is.
    await this.#bring(revision, needed.index === null ? needed.settings : [...needed.settings, needed.index]);
    await this.#bring(revision, needed.index === null ? needed.weights : await this.#shards(revision, needed.index));
  }

  async #shards(revision: Revision, index: string): Promise<string[]> {
    return shardsOfIndex(this.cache.repository, await Deno.readTextFile(this.cache.snapshotPath(revision.commit, index)));
  }

  async #bring({ commit, files }: Revision, paths: readonly string[]): Promise<void> {
    const wanted = paths.map((path) => files.get(path) ?? this.#failMissing(path));
    await this.#checkSpace(wanted);
    for (const file of wanted) {
      await downloadBlob({ client: this.client, cache: this.cache, commit }, file, this.progress);
      await this.cache.link(commit, file.path, file.hash);
    }
  }

  async #checkSpace(files: readonly RemoteFile[]): Promise<void> {
    let numMissing = 0;
    for (const { hash, numBytes } of files) {
      const blob = this.cache.blobPath(hash);
      if (await fileSize(blob) !== numBytes) numMissing += numBytes - Math.min(numBytes, await fileSize(`${blob}.incomplete`) ?? 0);
    }
    const folder = join(this.cache.folder, "blobs");
    checkSpace(formatReference(this.reference), folder, numMissing, await this.freeBytes(folder));
  }

  #failMissing(path: string): never {
    throw new HubError(`${this.cache.repository} has no ${path}, which its index names`);
  }
}
