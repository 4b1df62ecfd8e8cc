/** The head that drafts for the default model. It lies in the program or in the checkout, and is kept beside the model, where it is looked for. */
import { Buffer } from "node:buffer";
import { dirname, join } from "node:path";
import { withFileLock } from "./file_lock.ts";

/** What a head's folder has to hold to be used. */
export const DRAFTER_FILES = ["config.json", "model.safetensors"] as const;

/**
 * Brings the files of `source` into `folder`, unless they are there already, byte for byte: a newer program may have a better head.
 * @param source null, or a folder without these files: nothing is done.
 */
export async function ensureDefaultDrafter(source: string | null, folder: string): Promise<void> {
  const files = source === null ? null : await readAll(source);
  if (files === null || isSame(files, await readAll(folder))) return;
  await withFileLock(`${folder}.lock`, () => {}, async () => {
    const part = `${folder}.part`;
    await remove(part);
    await Deno.mkdir(part, { recursive: true });
    for (const [i, name] of DRAFTER_FILES.entries()) await Deno.writeFile(join(part, name), files[i]!);
    await remove(folder);
    await Deno.mkdir(dirname(folder), { recursive: true });
    await Deno.rename(part, folder);
  });
}

/** null when one of them is missing. */
async function readAll(folder: string): Promise<Uint8Array<ArrayBuffer>[] | null> {
  try {
    return await Promise.all(DRAFTER_FILES.map((name) => Deno.readFile(join(folder, name))));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

function isSame(files: readonly Uint8Array[], others: readonly Uint8Array[] | null): boolean {
  return others !== null && files.every((bytes, i) => Buffer.compare(bytes, others[i]!) === 0);
}

async function remove(path: string): Promise<void> {
  try {
    await Deno.remove(path, { recursive: true });
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
