import { cacheFolder } from "../hub/cache_folder.ts";
import { unpackLibrary } from "../native/bundled_library.ts";
import { findLibrary, LibraryError } from "../native/library.ts";
import { type Bundle, readBundle } from "./bundle.ts";

/**
 * The native library to open: the one that `ROWLOCK_LIBRARY` names, else the compiled program's own, else the one that was built.
 * @throws {LibraryError} with what to do, when there is none.
 */
export async function libraryPath(bundle: Bundle | null = readBundle()): Promise<string> {
  const named = Deno.env.get("ROWLOCK_LIBRARY");
  if (named && !isFile(named)) {
    const instead = bundle === null ? 'and run "deno task setup", which finds or builds one' : "to use the one inside the program";
    throw new LibraryError(`ROWLOCK_LIBRARY is ${JSON.stringify(named)}, where no file is; name a native library, or unset it ${instead}`);
  }
  if (bundle === null || named) return findLibrary();
  return await unpackLibrary({ folder: bundle.folder, files: bundle.facts.libraryFiles }, cacheFolder());
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return false;
    throw error;
  }
}
