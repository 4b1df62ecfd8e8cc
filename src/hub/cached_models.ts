/** What is kept on this machine: models of the hub's cache and of Rowlock's own. */
import { basename, join } from "node:path";
import { cacheFolder } from "./cache_folder.ts";
import { type HubSettings, hubSettings } from "./hub_settings.ts";
import { DEFAULT_REVISION, formatReference, isRepositoryName } from "./model_reference.ts";
import { chooseFiles, ggufModels, type NeededFiles } from "./needed_files.ts";
import { numberedParts } from "./numbered_parts.ts";
import { HubError } from "./hub_error.ts";
import { entriesOf, fileSize, RepositoryCache } from "./repository_cache.ts";

export interface CachedModel {
  /** What `--model` takes; for Rowlock's own models the file's name. */
  readonly name: string;
  /** Folder or `.gguf` file; null for a repository with nothing that could be served. */
  readonly path: string | null;
  readonly numBytes: number;
}

export interface Caches {
  readonly settings?: HubSettings;
  /** Rowlock's own. */
  readonly cache?: string;
}

/** Every model of both caches, by name. */
export async function listCachedModels({ settings = hubSettings(), cache = cacheFolder() }: Caches = {}): Promise<CachedModel[]> {
  const models = await ownModels(cache);
  for (const repository of await cachedRepositories(settings.cache)) {
    models.push(...await modelsOf(new RepositoryCache(settings.cache, repository)));
  }
  return models.sort((a, b) => a.name < b.name ? -1 : 1);
}

/** Models that did not come from the hub. */
export async function ownModels(cache: string): Promise<CachedModel[]> {
  const folder = join(cache, "models");
  const models: CachedModel[] = [];
  for (const { name, isFile } of await entriesOf(folder)) {
    if (!isFile || !name.endsWith(".gguf")) continue;
    const path = join(folder, name);
    models.push({ name, path, numBytes: await fileSize(path) ?? 0 });
  }
  return models;
}

async function cachedRepositories(cache: string): Promise<string[]> {
  // A repository's name has no two dashes in a row, so the folder's name is read back in one way only.
  const names = (await entriesOf(cache)).map(({ name }) => /^models--(.+?)--(.+)$/.exec(name));
  return names.flatMap((match) => match === null ? [] : [`${match[1]}/${match[2]}`]).filter(isRepositoryName);
}

async function modelsOf(cache: RepositoryCache): Promise<CachedModel[]> {
  const { repository } = cache;
  const refs = await cache.refs();
  const models: CachedModel[] = [];
  for (const commit of await cache.commits()) {
    const names = [...refs].filter(([, target]) => target === commit).map(([name]) => name);
    const revision = names.includes(DEFAULT_REVISION) ? DEFAULT_REVISION : names[0] ?? commit;
    const paths = await cache.filesOf(commit);
    for (const { filePattern, needed } of modelsAmong(repository, paths)) {
      const files = needed.type === "gguf" ? needed.paths : paths.filter((path) => !path.endsWith(".gguf"));
      models.push({
        name: formatReference({ type: "hub", repository, revision, filePattern }),
        path: needed.type === "gguf" ? cache.snapshotPath(commit, needed.path) : cache.snapshotFolder(commit),
        numBytes: await totalBytes(files.map((path) => cache.snapshotPath(commit, path))),
      });
    }
  }
  return models.length > 0 ? models : [{ name: repository, path: null, numBytes: await folderBytes(join(cache.folder, "blobs")) }];
}

/** A snapshot may hold a folder's model and several files with one each. */
function modelsAmong(repository: string, paths: readonly string[]): { filePattern: string | null; needed: NeededFiles }[] {
  const models: { filePattern: string | null; needed: NeededFiles }[] = ggufModels(paths).map((path) => ({
    filePattern: path,
    needed: { type: "gguf", path, paths: numberedParts(path).filter((part) => paths.includes(part)) },
  }));
  try {
    const needed = chooseFiles(repository, paths.filter((path) => !/\.gguf$/i.test(path)), null);
    return [{ filePattern: null, needed }, ...models];
  } catch (error) {
    if (error instanceof HubError) return models;
    throw error;
  }
}

async function totalBytes(paths: readonly string[]): Promise<number> {
  const sizes = await Promise.all(paths.map(fileSize));
  return sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0);
}

/** Bytes of the files right in `folder`. */
export async function folderBytes(folder: string): Promise<number> {
  const files = (await entriesOf(folder)).filter(({ isFile }) => isFile);
  return await totalBytes(files.map(({ name }) => join(folder, name)));
}

/** `model` of `model.gguf`, as people name it. */
export function isNamed(model: CachedModel, name: string): boolean {
  return model.name === name || basename(model.name, ".gguf") === name;
}
