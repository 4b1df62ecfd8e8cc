/** Which files of a repository serving needs. */
import { HubError } from "./hub_error.ts";
import { numberedParts } from "./numbered_parts.ts";

/** One file with everything in it, which may be cut in parts, or what a folder has to have. */
export type NeededFiles =
  | {
    readonly type: "gguf";
    /** Of the only file, or of the first part. */
    readonly path: string;
    readonly paths: readonly string[];
  }
  | {
    readonly type: "folder";
    /** Fetched first: small, and the index tells which weights are needed. */
    readonly settings: readonly string[];
    /** null: `weights` says it all. */
    readonly index: string | null;
    readonly weights: readonly string[];
  };

const INDEX_FILE = "model.safetensors.index.json";

const SETTINGS_FILES = [
  "config.json",
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "chat_template.jinja",
  "chat_template.json",
];
const MAX_NAMED_FILES = 30;

/**
 * @param paths all files of the repository.
 * @param pattern a file's name, a part of it, or a glob with `*`; upper and lower case are alike. null: no choice was made.
 * @throws {HubError} when nothing can be served, or when the choice is not clear; it names the files to choose from.
 */
export function chooseFiles(repository: string, paths: readonly string[], pattern: string | null): NeededFiles {
  const ggufs = ggufModels(paths);
  if (pattern !== null) return ggufFiles(repository, paths, chooseMatch(repository, ggufs, pattern));
  const folder = folderFiles(paths);
  if (folder !== null) return folder;
  // Files that see pictures go with a model, they are none.
  const models = ggufs.filter((path) => !isProjector(path));
  if (models.length === 1) return ggufFiles(repository, paths, models[0]!);
  if (models.length === 0) {
    throw new HubError(`${repository} has neither config.json with model*.safetensors nor a .gguf file: nothing to serve`);
  }
  throw new HubError(`${repository} has ${models.length} .gguf files; choose one with ${repository}:PATTERN from ${list(models)}`);
}

/** GGUF models by their file, or by the first of their parts. */
export function ggufModels(paths: readonly string[]): string[] {
  const ggufs = paths.filter((path) => path.toLowerCase().endsWith(".gguf"));
  return [...new Set(ggufs.map((path) => numberedParts(path)[0]!))].sort();
}

function ggufFiles(repository: string, all: readonly string[], path: string): NeededFiles {
  const paths = numberedParts(path);
  const missing = paths.find((part) => !all.includes(part));
  if (missing !== undefined) throw new HubError(`${repository} has no ${missing}, one of the ${paths.length} parts of the model`);
  return { type: "gguf", path, paths };
}

function folderFiles(paths: readonly string[]): NeededFiles | null {
  if (!paths.includes("config.json")) return null;
  const settings = SETTINGS_FILES.filter((name) => paths.includes(name));
  if (paths.includes(INDEX_FILE)) return { type: "folder", settings, index: INDEX_FILE, weights: [] };
  const weights = paths.filter((path) => /^model[^/]*\.safetensors$/.test(path)).sort();
  if (weights.length === 0) return null;
  return { type: "folder", settings, index: null, weights: weights.includes("model.safetensors") ? ["model.safetensors"] : weights };
}

function chooseMatch(repository: string, ggufs: readonly string[], pattern: string): string {
  const exact = ggufs.find((path) => numberedParts(path).includes(pattern));
  if (exact !== undefined) return exact;
  const matching = ggufs.filter((path) => matches(path, pattern));
  // The projector of a model that sees pictures often has the same type in its name.
  const models = matching.length > 1 ? matching.filter((path) => !isProjector(path)) : matching;
  if (models.length === 1) return models[0]!;
  if (models.length === 0) {
    const found = ggufs.length === 0 ? "it has none" : `it has ${list(ggufs)}`;
    throw new HubError(`${repository} has no .gguf file that matches "${pattern}"; ${found}`);
  }
  throw new HubError(`${repository} has ${models.length} .gguf files that match "${pattern}": ${list(models)}`);
}

function matches(path: string, pattern: string): boolean {
  const escaped = pattern.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(pattern.includes("*") ? `^${escaped.join(".*")}$` : escaped[0]!, "i").test(path);
}

function isProjector(path: string): boolean {
  return /(^|[/._-])mmproj/i.test(path);
}

function list(paths: readonly string[]): string {
  const shown = paths.slice(0, MAX_NAMED_FILES).join(", ");
  return paths.length > MAX_NAMED_FILES ? `${shown} and ${paths.length - MAX_NAMED_FILES} more` : shown;
}

/**
 * The weight files that an index names.
 * @throws {HubError} for an index that cannot be read or names what is no file beside it.
 */
export function shardsOfIndex(repository: string, text: string): string[] {
  let index: unknown;
  try {
    index = JSON.parse(text);
  } catch (error) {
    throw new HubError(`${INDEX_FILE} of ${repository} is no JSON: ${(error as Error).message}`);
  }
  const map = (index as { weight_map?: unknown } | null)?.weight_map;
  const shards = typeof map === "object" && map !== null ? [...new Set(Object.values(map))].sort() : [];
  const wrong = shards.find((shard) => typeof shard !== "string" || !/^\w[\w.-]*\.safetensors$/.test(shard));
  if (shards.length === 0 || wrong !== undefined) {
    throw new HubError(
      `${INDEX_FILE} of ${repository} names no usable weight files${wrong === undefined ? "" : `: ${JSON.stringify(wrong).slice(0, 80)}`}`,
    );
  }
  return shards as string[];
}
