/** Takes models out of the caches again, and nothing else. */
import { basename, dirname, join } from "node:path";
import { cacheFolder } from "./cache_folder.ts";
import { type Caches, folderBytes, isNamed, ownModels } from "./cached_models.ts";
import { HubError } from "./hub_error.ts";
import { hubSettings } from "./hub_settings.ts";
import { DEFAULT_REVISION, formatReference, type HubReference, parseModelReference } from "./model_reference.ts";
import { chooseFiles } from "./needed_files.ts";
import { entriesOf, fileSize, RepositoryCache } from "./repository_cache.ts";

/** What would go, before it goes. */
export interface Removal {
  /** In words, for a question. */
  readonly what: string;
  /** Bytes that are free afterwards. */
  readonly numBytes: number;
  run(): Promise<void>;
}

/**
 * Finds what `name` stands for: a repository with all its revisions, one revision of it, one GGUF file of it, or a file of Rowlock's own.
 * @throws {HubError} when neither cache has it.
 */
export async function planRemoval(name: string, { settings = hubSettings(), cache = cacheFolder() }: Caches = {}): Promise<Removal> {
  const own = (await ownModels(cache)).find((model) => isNamed(model, name));
  if (own !== undefined) return { what: own.name, numBytes: own.numBytes, run: () => Deno.remove(own.path!) };
  const reference = parseModelReference(name);
  if (reference.type === "path") throw new HubError(`"${name}" is in no cache; rowlock list shows what is, and other files are yours`);
  const repository = new RepositoryCache(settings.cache, reference.repository);
  if ((await entriesOf(repository.folder)).length === 0) throw new HubError(`${reference.repository} is not in ${settings.cache}`);
  if (reference.filePattern !== null) return await planFile(repository, reference);
  return reference.revision === DEFAULT_REVISION ? await planRepository(repository) : await planRevision(repository, reference);
}

async function planRepository(cache: RepositoryCache): Promise<Removal> {
  return {
    what: `${cache.repository}, all that was fetched of it`,
    numBytes: await folderBytes(join(cache.folder, "blobs")),
    run: () => Deno.remove(cache.folder, { recursive: true }),
  };
}

async function planRevision(cache: RepositoryCache, reference: HubReference): Promise<Removal> {
  const commit = await requireCommit(cache, reference);
  const paths = await cache.filesOf(commit);
  const blobs = await unsharedBlobs(cache, commit, paths);
  return {
    what: formatReference(reference),
    numBytes: await bytesOf(blobs),
    run: async (): Promise<void> => {
      await Deno.remove(cache.snapshotFolder(commit), { recursive: true });
      for (const [name, target] of await cache.refs()) if (target === commit) await Deno.remove(join(cache.folder, "refs", name));
      await removeAll(blobs);
    },
  };
}

async function planFile(cache: RepositoryCache, reference: HubReference): Promise<Removal> {
  const commit = await requireCommit(cache, reference);
  const { repository, filePattern } = reference;
  const needed = chooseFiles(repository, await cache.filesOf(commit), filePattern);
  // A pattern always chooses one file, or the parts of one.
  const paths = needed.type === "gguf" ? needed.paths : [];
  const blobs = await unsharedBlobs(cache, commit, paths);
  return {
    what: `${paths.join(", ")} of ${repository}`,
    numBytes: await bytesOf(blobs),
    run: () => removeAll([...paths.map((path) => cache.snapshotPath(commit, path)), ...blobs]),
  };
}

async function requireCommit(cache: RepositoryCache, reference: HubReference): Promise<string> {
  const commit = await cache.commitOf(reference.revision);
  if (commit === null) throw new HubError(`${formatReference(reference)} is not in ${cache.cache}`);
  return commit;
}

/** Contents that only these files of this snapshot use. */
async function unsharedBlobs(cache: RepositoryCache, commit: string, paths: readonly string[]): Promise<string[]> {
  const mine = new Set<string>();
  const others = new Set<string>();
  for (const other of await cache.commits()) {
    for (const path of await cache.filesOf(other)) {
      const blob = await blobOf(cache, other, path);
      if (blob !== null) (other === commit && paths.includes(path) ? mine : others).add(blob);
    }
  }
  return [...mine].filter((blob) => !others.has(blob));
}

/** A link that leads elsewhere than to the repository's own blobs is left alone. */
async function blobOf(cache: RepositoryCache, commit: string, path: string): Promise<string | null> {
  const link = cache.snapshotPath(commit, path);
  const target = await Deno.readLink(link).catch(() => null);
  if (target === null) return null;
  const blob = join(cache.folder, "blobs", basename(target));
  return join(dirname(link), target) === blob ? blob : null;
}

async function bytesOf(paths: readonly string[]): Promise<number> {
  const sizes = await Promise.all(paths.map(fileSize));
  return sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0);
}

async function removeAll(paths: readonly string[]): Promise<void> {
  for (const path of paths) await Deno.remove(path);
}
