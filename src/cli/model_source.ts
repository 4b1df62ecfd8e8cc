/** From what `--model` names to a checkpoint that is read and checked. */
import { ensureDefaultDrafter } from "../hub/default_drafter.ts";
import { ensureDefaultModel } from "../hub/default_model.ts";
import { fetchModel } from "../hub/fetch_model.ts";
import { formatReference, parseModelReference } from "../hub/model_reference.ts";
import type { Progress } from "../hub/progress.ts";
import { loadModel } from "../models/checkpoint.ts";
import { drafterFolderOf } from "../models/drafters.ts";
import type { LoadedModel } from "../models/loaded_model.ts";
import { bundledModel, defaultDrafter } from "./bundle.ts";

/** A model on this machine. */
export interface FoundModel {
  /** Folder or `.gguf` file. */
  readonly path: string;
  /** What it is called when the path says nothing to people; null for the path's own name. */
  readonly id: string | null;
}

/** Where the model is; fetched first when it is not here. null names the default model. */
export async function findModel(name: string | null, progress: Progress): Promise<FoundModel> {
  if (name === null) return { path: await findDefaultModel(progress), id: null };
  const reference = parseModelReference(name);
  if (reference.type === "path") return { path: reference.path, id: null };
  return { path: await fetchModel(reference, { progress }), id: formatReference(reference) };
}

/** With the head that drafts for it. */
async function findDefaultModel(progress: Progress): Promise<string> {
  const path = await ensureDefaultModel({ progress, bundled: bundledModel() });
  await ensureDefaultDrafter(defaultDrafter(), drafterFolderOf(path));
  return path;
}

/** Reads what was found, under the id that clients name it by. */
export function readModel({ path, id }: FoundModel): LoadedModel {
  const model = loadModel(path);
  return id === null ? model : { ...model, id };
}
