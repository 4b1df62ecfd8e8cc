import { cacheFolder } from "../hub/cache_folder.ts";
import { unpackLibrary } from "../native/bundled_library.ts";
import { findLibrary } from "../native/library.ts";
import { type Bundle, readBundle } from "./bundle.ts";

/**
 * The native library to open: the one that `ROWLOCK_LIBRARY` names, else the compiled program's own, else the one that was built.
 * @throws {LibraryError} with what to do, when there is none.
 */
export async function libraryPath(bundle: Bundle | null = readBundle()): Promise<string> {
  if (bundle === null || Deno.env.get("ROWLOCK_LIBRARY")) return findLibrary();
  return await unpackLibrary({ folder: bundle.folder, files: bundle.facts.libraryFiles }, cacheFolder());
}
