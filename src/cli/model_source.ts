/** From what `--model` names to a checkpoint that is read and checked. */
import { DEFAULT_MODEL, ensureDefaultModel } from "../hub/default_model.ts";
import { HubError } from "../hub/hub_error.ts";
import { formatReference, parseModelReference } from "../hub/model_reference.ts";
import type { Progress } from "../hub/progress.ts";
import { loadModel } from "../models/checkpoint.ts";
import type { LoadedModel } from "../models/loaded_model.ts";
import { bundledModel } from "./bundle.ts";
import { fetchFromHub } from "./hub_fetch.ts";
import { unwrapFolder } from "./unwrap_folder.ts";

/** What a `.gguf` file begins with. */
const GGUF = "GGUF";

/** A model on this machine. */
export interface FoundModel {
  /** Folder or `.gguf` file. */
  readonly path: string;
  /** What it is called when the path says nothing to people; null for the path's own name. */
  readonly id: string | null;
}

/** What the default model is called, on the command line and in requests. */
export const DEFAULT_MODEL_NAMES: readonly string[] = [DEFAULT_MODEL.fileName, modelNameOf(DEFAULT_MODEL.fileName)];

/** Whether the default model is meant: by no name, or by its own, which is no path and no repository. */
export function isDefaultModel(name: string | null): boolean {
  return name === null || (DEFAULT_MODEL_NAMES.includes(name) && missingPath(name) !== null);
}

/** `SmolLM2-135M-Instruct.Q4_1.gguf` → `SmolLM2-135M-Instruct` */
function modelNameOf(fileName: string): string {
  return fileName.replace(/\.[^.]+\.gguf$/, "");
}

/** @throws {Error} for a file or folder that is not there or holds no model: that can be told before anything else is done. */
export function checkModelName(name: string | null): void {
  if (isDefaultModel(name)) return;
  const missing = missingPath(name!);
  if (missing === null) return checkPath(name!);
  throw new Error(`There is no file or folder ${missing}; a model is a .gguf file, a folder with config.json, or org/name of the hub`);
}

function checkPath(name: string): void {
  const reference = parseModelReference(name);
  if (reference.type === "path") checkFirstBytes(unwrapFolder(reference.path));
}

/** A file that is something else shows without a look at the rest. */
function checkFirstBytes(path: string): void {
  if (!path.endsWith(".gguf") || !Deno.statSync(path).isFile) return;
  using file = Deno.openSync(path);
  const bytes = new Uint8Array(GGUF.length);
  const found = new TextDecoder().decode(bytes.subarray(0, file.readSync(bytes) ?? 0));
  if (found !== GGUF) throw new Error(`Cannot read ${path}: it begins with ${JSON.stringify(found)}, expected "${GGUF}"`);
}

function missingPath(name: string): string | null {
  const reference = parseModelReference(name);
  if (reference.type !== "path") return null;
  try {
    Deno.statSync(reference.path);
    return null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return reference.path;
    return null;
  }
}

/** Where the model is; fetched first when it is not here. @param name null for the default model. */
export async function findModel(name: string | null, progress: Progress): Promise<FoundModel> {
  if (isDefaultModel(name)) return { path: await ensureDefaultModel({ progress, bundled: bundledModel() }), id: null };
  const reference = parseModelReference(name!);
  if (reference.type === "path") return { path: unwrapFolder(reference.path), id: null };
  try {
    return { path: await fetchFromHub(reference, { progress }), id: formatReference(reference) };
  } catch (error) {
    if (!(error instanceof HubError) || !error.isUnreachable) throw error;
    throw new HubError(`${error.message}; without a network, name a model that is on this machine (rowlock list)`, true);
  }
}

/** Reads what was found, under the id that clients name it by. */
export function readModel({ path, id }: FoundModel): LoadedModel {
  const model = loadModel(path);
  return id === null ? model : { ...model, id };
}
