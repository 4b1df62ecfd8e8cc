/** One repository in the cache, laid out as Python's huggingface_hub does: blobs by hash, snapshots of links, refs to commits. */
import { dirname, join, relative } from "node:path";
import { HubError } from "./hub_error.ts";
import { isRepositoryName, isRevision } from "./model_reference.ts";

const COMMIT = /^[0-9a-f]{40}$/;
const BLOB = /^([0-9a-f]{40}|[0-9a-f]{64})$/;

export class RepositoryCache {
  readonly folder: string;

  constructor(readonly cache: string, readonly repository: string) {
    if (!isRepositoryName(repository)) throw new HubError(`"${repository}" is no name of a repository`);
    this.folder = join(cache, `models--${repository.replace("/", "--")}`);
  }

  /** Where the content with this hash is, or has to be. */
  blobPath(hash: string): string {
    if (!BLOB.test(hash)) throw new HubError(`${this.repository}: "${hash.slice(0, 80)}" is no SHA-1 or SHA-256`);
    return join(this.folder, "blobs", hash);
  }

  /** The lock that Python takes too. */
  lockPath(hash: string): string {
    return join(this.cache, ".locks", `models--${this.repository.replace("/", "--")}`, `${hash}.lock`);
  }

  snapshotFolder(commit: string): string {
    if (!COMMIT.test(commit)) throw new HubError(`${this.repository}: "${commit.slice(0, 80)}" is no commit`);
    return join(this.folder, "snapshots", commit);
  }

  /** @throws {HubError} for a path that leads out of the snapshot. */
  snapshotPath(commit: string, path: string): string {
    return join(this.snapshotFolder(commit), checkFilePath(this.repository, path));
  }

  /** The commit that a branch, a tag or a commit stands for, as far as the cache knows. */
  async commitOf(revision: string): Promise<string | null> {
    if (COMMIT.test(revision)) return await isFolder(this.snapshotFolder(revision)) ? revision : null;
    try {
      const commit = (await Deno.readTextFile(this.#refPath(revision))).trim();
      return COMMIT.test(commit) ? commit : null;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return null;
      throw error;
    }
  }

  /** Notes what a branch or tag stands for now. A commit stands for itself. */
  async writeRef(revision: string, commit: string): Promise<void> {
    if (revision === commit) return;
    const path = this.#refPath(revision);
    await Deno.mkdir(dirname(path), { recursive: true });
    await Deno.writeTextFile(path, commit);
  }

  /** Every branch and tag that the cache knows, with its commit. */
  async refs(): Promise<Map<string, string>> {
    const refs = new Map<string, string>();
    for (const name of await filesBelow(join(this.folder, "refs"))) {
      const commit = isRevision(name) ? await this.commitOf(name) : null;
      if (commit !== null) refs.set(name, commit);
    }
    return refs;
  }

  /** Commits that have a snapshot. */
  async commits(): Promise<string[]> {
    return (await entriesOf(join(this.folder, "snapshots"))).map(({ name }) => name).filter((name) => COMMIT.test(name)).sort();
  }

  /** Paths of a snapshot's files, relative to it; links that lead nowhere are left out. */
  async filesOf(commit: string): Promise<string[]> {
    const folder = this.snapshotFolder(commit);
    const paths: string[] = [];
    for (const path of await filesBelow(folder)) if (await fileSize(join(folder, path)) !== null) paths.push(path);
    return paths;
  }

  /** Makes `path` of the snapshot the content with this hash. */
  async link(commit: string, path: string, hash: string): Promise<void> {
    const link = this.snapshotPath(commit, path);
    await Deno.mkdir(dirname(link), { recursive: true });
    // Renamed into place: a reader sees the old link or the new one, never none.
    const staged = `${link}.${crypto.randomUUID()}`;
    await Deno.symlink(relative(dirname(link), this.blobPath(hash)), staged);
    await Deno.rename(staged, link);
  }

  #refPath(revision: string): string {
    if (!isRevision(revision)) throw new HubError(`${this.repository}: "${revision.slice(0, 80)}" is no revision`);
    return join(this.folder, "refs", revision);
  }
}

/**
 * A file's path inside its repository, which a hostile hub could make lead anywhere.
 * @throws {HubError}
 */
export function checkFilePath(repository: string, path: string): string {
  const isInside = path.split("/").every((part) => part !== "" && part !== "." && part !== "..");
  // deno-lint-ignore no-control-regex
  if (isInside && !/[\\:\x00-\x1f]/.test(path) && path.length < 1024) return path;
  throw new HubError(`${repository} names a file ${JSON.stringify(path.slice(0, 80))}, which is no path inside a repository`);
}

/** Bytes of a file, links followed; null when there is none. */
export async function fileSize(path: string): Promise<number | null> {
  try {
    const { isFile, size } = await Deno.stat(path);
    return isFile ? size : null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return null;
    throw error;
  }
}

async function isFolder(path: string): Promise<boolean> {
  return await Deno.stat(path).then((info) => info.isDirectory, () => false);
}

/** A folder's entries; none when there is no such folder. */
export async function entriesOf(folder: string): Promise<Deno.DirEntry[]> {
  try {
    return await Array.fromAsync(Deno.readDir(folder));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return [];
    throw error;
  }
}

async function filesBelow(folder: string, prefix = ""): Promise<string[]> {
  const paths: string[] = [];
  for (const { name, isDirectory } of await entriesOf(join(folder, prefix))) {
    const path = prefix === "" ? name : `${prefix}/${name}`;
    if (isDirectory) paths.push(...await filesBelow(folder, path));
    else paths.push(path);
  }
  return paths.sort();
}
