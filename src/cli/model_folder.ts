/** What a folder has to hold to be a model or a drafter, told before anything reads it. */
import { resolve } from "node:path";
import { ModelFileError } from "../models/model_file_error.ts";

const CONFIG = "config.json";
/** A folder may hold thousands of files. */
const MAX_NAMES = 8;

/** What stands beside "it has no …" for each of both. */
const NEEDS = {
  model: `a model's folder has ${CONFIG}, model*.safetensors and, for text, tokenizer.json, or it has a .gguf file`,
  drafter: `a drafter's folder has ${CONFIG} and model*.safetensors`,
} as const;

/** The names in a folder, sorted; null for what is no folder, or is not there. */
export function namesIn(path: string): readonly string[] | null {
  try {
    if (!Deno.statSync(path).isDirectory) return null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
  return [...Deno.readDirSync(path)].map(({ name }) => name).sort();
}

/** Whether safetensors of a checkpoint are among the names: one file, shards, or their index. */
export function hasSafetensors(names: readonly string[]): boolean {
  return names.some((name) => /^model.*\.safetensors$/.test(name) || name === "model.safetensors.index.json");
}

/**
 * @param kind what the folder is read as. @param names what it holds, as `namesIn` tells; null says nothing, and others tell why.
 * @throws {ModelFileError} that says what is missing, what such a folder needs, and what was found.
 */
export function checkFolder(path: string, kind: keyof typeof NEEDS, names: readonly string[] | null = namesIn(path)): void {
  if (names === null) return;
  const missing = [...(names.includes(CONFIG) ? [] : [CONFIG]), ...(hasSafetensors(names) ? [] : ["model*.safetensors"])];
  if (missing.length === 0) return;
  const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : "";
  const found = names.length === 0 ? "nothing" : `${names.slice(0, MAX_NAMES).join(", ")}${more}`;
  const fault = `it has no ${missing.join(" and no ")}`;
  throw new ModelFileError(`Cannot use ${resolve(path)} as a ${kind}: ${fault}; ${NEEDS[kind]}; found ${found}`);
}
