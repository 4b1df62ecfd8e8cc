import { cacheFolder } from "../hub/cache_folder.ts";
import { unpackLibrary } from "../native/bundled_library.ts";
import { missingFeatures, readCpuinfo } from "../native/cpu_features.ts";
import { findLibrary, LibraryError } from "../native/library.ts";
import { type Bundle, readBundle } from "./bundle.ts";

/**
 * The native library to open: the one that `ROWLOCK_LIBRARY` names, else the compiled program's own, else the one that was built.
 * @throws {LibraryError} with what to do, when there is none or this processor cannot run it.
 */
export async function libraryPath(bundle: Bundle | null = readBundle()): Promise<string> {
  if (bundle === null || Deno.env.get("ROWLOCK_LIBRARY")) return findLibrary();
  checkProcessor(bundle.facts.library["isa"] ?? "");
  return await unpackLibrary({ folder: bundle.folder, files: bundle.facts.libraryFiles }, cacheFolder());
}

/** An instruction that the processor does not know would end the process without a word. */
function checkProcessor(level: string): void {
  const cpuinfo = readCpuinfo();
  const missing = cpuinfo === null ? [] : missingFeatures(level, cpuinfo);
  if (missing.length === 0) return;
  throw new LibraryError(
    `This processor lacks ${
      missing.join(", ")
    }: the download is for ${level} (about 2015 and later). Build from source, which suits any processor`,
  );
}
