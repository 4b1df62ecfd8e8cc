/** The folder that `--prefix-cache-disk` names. */
import { join, resolve } from "node:path";
import type { PrefixDiskOptions } from "../engine/messages.ts";
import { makePrivateFolder } from "../native/private_folder.ts";
import type { ServeSettings } from "./arguments.ts";
import { UsageError } from "./flags.ts";

/** Inside of the folder that is named, whose own rights are left as they are. */
const SUBFOLDER = "rowlock-prefixes";

/**
 * Makes the folder, for this user alone, and sees whether it can be written; null when none is named.
 * @throws {UsageError | Error} with one line that says what is wrong with it.
 */
export async function makePrefixDisk(
  { prefixCacheDisk, prefixCacheDiskMb, prefixCacheMb }: Pick<ServeSettings, "prefixCacheDisk" | "prefixCacheDiskMb" | "prefixCacheMb">,
): Promise<PrefixDiskOptions | null> {
  if (prefixCacheDisk === null) return null;
  if (prefixCacheMb === 0) {
    throw new UsageError("--prefix-cache-disk needs memory to work with: --prefix-cache-mb is 0, expected 1 or more");
  }
  try {
    const folder = await makePrivateFolder(join(resolve(prefixCacheDisk), SUBFOLDER));
    const probe = join(folder, `probe-${crypto.randomUUID()}`);
    await Deno.writeTextFile(probe, "can be written");
    await Deno.remove(probe);
    return { folder, maxBytes: prefixCacheDiskMb * 1e6 };
  } catch (error) {
    throw new Error(`--prefix-cache-disk ${prefixCacheDisk} cannot be used: ${error instanceof Error ? error.message : error}`);
  }
}
