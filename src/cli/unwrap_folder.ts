/** A folder that was downloaded with one `.gguf` file in it is as good as that file. */
import { join } from "node:path";
import { numberedParts } from "../hub/numbered_parts.ts";

/** Of models that see pictures: no model by themselves. */
const PROJECTOR = /^mmproj/i;

/**
 * The `.gguf` file that a folder without config.json means; any other path stays what it is.
 * @throws {Error} that names the files when there are several models.
 */
export function unwrapFolder(path: string): string {
  if (!isFolder(path)) return path;
  const names = [...Deno.readDirSync(path)].map(({ name }) => name);
  const files = names.filter((name) => name.endsWith(".gguf") && !PROJECTOR.test(name)).sort();
  if (names.includes("config.json") || files.length === 0) return path;
  // Parts of one model count as one.
  const models = files.filter((name) => numberedParts(name)[0] === name);
  if (models.length === 1) return join(path, models[0]!);
  throw new Error(
    `${path} has no config.json and several .gguf files; name one of them: ${(models.length > 0 ? models : files).join(", ")}`,
  );
}

function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
