/** A folder that was downloaded with one `.gguf` file in it is as good as that file. */
import { join } from "node:path";
import { numberedParts } from "../hub/numbered_parts.ts";
import { checkFolder, hasSafetensors, namesIn } from "./model_folder.ts";

/** Of models that see pictures: no model by themselves. */
const PROJECTOR = /^mmproj/i;

/**
 * The `.gguf` file that a folder without safetensors means; any other path stays what it is.
 * @throws {Error} that names the files when there are several models, or what the folder needs when there is none.
 */
export function unwrapFolder(path: string): string {
  const names = namesIn(path);
  if (names === null || hasSafetensors(names) && names.includes("config.json")) return path;
  const files = names.filter((name) => name.endsWith(".gguf") && !PROJECTOR.test(name));
  if (files.length === 0) checkFolder(path, "model", names);
  // Parts of one model count as one.
  const models = files.filter((name) => numberedParts(name)[0] === name);
  if (models.length === 1) return join(path, models[0]!);
  throw new Error(`${path} has several .gguf files; name one of them: ${(models.length > 0 ? models : files).join(", ")}`);
}
