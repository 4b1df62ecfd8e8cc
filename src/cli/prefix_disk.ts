/** The folder that `--prefix-cache-disk` names. */
import { join, resolve } from "node:path";
import type { PrefixDiskOptions } from "../engine/messages.ts";
import { FolderSafetyError, makePrivateFolder } from "../native/private_folder.ts";
import type { ServeSettings } from "./arguments.ts";
import { UsageError } from "./flags.ts";

/** Inside of the folder that is named, whose own rights are left as they are. */
const SUBFOLDER = "rowlock-prefixes";
const DEFAULT_MB = 4096;

/** A read-only file system has no class of its own. */
const READ_ONLY = "EROFS";

type PrefixDiskSettings = Pick<ServeSettings, "prefixCacheDisk" | "prefixCacheDiskMb" | "prefixCacheMb">;

/** Looks at the flags alone, before anything is loaded. @throws {UsageError} for those that do not go together. */
export function checkPrefixDiskFlags({ prefixCacheDisk, prefixCacheDiskMb, prefixCacheMb }: PrefixDiskSettings): void {
  if (prefixCacheDisk === null && prefixCacheDiskMb !== null) {
    throw new UsageError(`--prefix-cache-disk-mb is ${prefixCacheDiskMb}, and no folder is named; expected --prefix-cache-disk beside it`);
  }
  if (prefixCacheDisk !== null && prefixCacheMb === 0) {
    throw new UsageError("--prefix-cache-disk needs memory to work with: --prefix-cache-mb is 0, expected 1 or more");
  }
}

/**
 * Makes the folder, for this user alone, and sees whether it may be written; null when none is named, and, with a warning, when it cannot
 * be had for a reason that may pass, like a disk that is full. (One that is there and cannot be written for such a reason is told by its
 * user.)
 * @param settings that `checkPrefixDiskFlags` has let pass.
 * @throws {Error} with one line that says what is wrong with it: rights, its owner, or that it is no folder.
 */
export async function makePrefixDisk(
  { prefixCacheDisk, prefixCacheDiskMb }: PrefixDiskSettings,
  warn: (line: string) => void = console.error,
): Promise<PrefixDiskOptions | null> {
  if (prefixCacheDisk === null) return null;
  try {
    const folder = await makePrivateFolder(join(resolve(prefixCacheDisk), SUBFOLDER));
    await checkRights(folder);
    return { folder, maxBytes: (prefixCacheDiskMb ?? DEFAULT_MB) * 1e6 };
  } catch (error) {
    const text = `--prefix-cache-disk ${prefixCacheDisk} cannot be used`;
    const reason = error instanceof Error ? error.message : String(error);
    if (isRefused(error)) throw new Error(`${text}: ${reason}`);
    warn(`rowlock: ${text}, prefixes stay in memory alone: ${reason}`);
    return null;
  }
}

/** An empty file takes no room. */
async function checkRights(folder: string): Promise<void> {
  const probe = join(folder, `probe-${crypto.randomUUID()}`);
  try {
    (await Deno.open(probe, { write: true, createNew: true })).close();
    await Deno.remove(probe);
  } catch (error) {
    if (isRefused(error)) throw error;
  }
}

/** Somebody has to do something about it: it does not pass by itself. */
function isRefused(error: unknown): boolean {
  const { PermissionDenied, NotCapable, NotADirectory, AlreadyExists } = Deno.errors;
  return [FolderSafetyError, PermissionDenied, NotCapable, NotADirectory, AlreadyExists].some((kind) => error instanceof kind) ||
    error instanceof Error && "code" in error && error.code === READ_ONLY;
}
