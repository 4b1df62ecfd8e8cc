import { dirname, join } from "node:path";
import type { SpeculationOptions } from "../engine/messages.ts";
import type { DrafterKind, LoadedDrafter } from "../models/drafter.ts";
import { drafterFolderOf, drafterKindOf, findDrafterBeside, findOwnDrafter, loadDrafter } from "../models/drafters.ts";
import type { LoadedModel } from "../models/loaded_model.ts";
import type { ServeSettings } from "./arguments.ts";
import { UsageError } from "./flags.ts";

const KIND_NAMES: Readonly<Record<DrafterKind, string>> = { mtp: "an MTP head", eagle3: "an EAGLE-3 drafter", dflash: "a DFlash drafter" };

export type DraftSettings = Pick<ServeSettings, "noSpeculation" | "draftModel" | "draftKind" | "draftTokens">;

/**
 * What the flags say about drafting for `model`; null: nothing is drafted.
 * @throws {UsageError} when the flags contradict each other.
 * @throws {ModelFileError} when a drafter cannot be read or does not fit the model.
 */
export function chooseDrafter(model: Pick<LoadedModel, "spec">, settings: DraftSettings): SpeculationOptions | null {
  const { noSpeculation, draftModel, draftKind, draftTokens } = settings;
  checkDraftFlags(settings);
  if (noSpeculation) return null;
  let drafter: LoadedDrafter | null = null;
  if (draftModel !== null) drafter = loadDrafter(draftModel, model, wantedKind(draftKind));
  else if (draftKind !== "ngram") drafter = ownDrafter(model, draftKind);
  if (drafter === null && draftKind !== "auto" && draftKind !== "ngram") {
    throw noOwnDrafter(draftKind);
  }
  return { drafter, ...(draftTokens === null ? {} : { maxDrafts: draftTokens }) };
}

function wantedKind(kind: DraftSettings["draftKind"]): DrafterKind | undefined {
  return kind === "auto" || kind === "ngram" ? undefined : kind;
}

/**
 * What can be told without a look at the model.
 * @throws {UsageError} when the flags contradict each other, or what the drafter's folder holds.
 * @throws {ModelFileError} when there is no such folder, or when it holds no drafter.
 */
export function checkDraftFlags({ noSpeculation, draftModel, draftKind }: DraftSettings): void {
  if (draftModel !== null && noSpeculation) throw new UsageError("--draft-model and --no-speculation are both given, expected one of them");
  if (draftModel !== null && draftKind === "ngram") {
    throw new UsageError(`--draft-kind is "ngram", which needs no weights; found --draft-model ${draftModel} beside it`);
  }
  if (draftModel === null) return;
  const wanted = wantedKind(draftKind);
  const found = drafterKindOf(draftModel, wanted);
  if (wanted !== undefined && wanted !== found) {
    throw new UsageError(`--draft-kind is "${wanted}", and ${draftModel} holds ${KIND_NAMES[found]}; expected "${found}" or "auto"`);
  }
}

/** What can be told from where the model lies. @param path its folder or `.gguf` file. @throws {UsageError} */
export function checkOwnDrafter(path: string, { noSpeculation, draftModel, draftKind }: DraftSettings): void {
  if (noSpeculation || draftModel !== null || draftKind === "auto" || draftKind === "ngram") return;
  // A checkpoint's own head is of one kind; a .gguf file has none, but there may be a folder beside it.
  const isPossible = path.endsWith(".gguf") ? exists(join(drafterFolderOf(path), "config.json")) : draftKind === "mtp";
  if (!isPossible) throw noOwnDrafter(draftKind);
}

function noOwnDrafter(kind: string): UsageError {
  return new UsageError(`--draft-kind is "${kind}", and the model has no such drafter of its own; expected --draft-model beside it`);
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** The head in the model's own checkpoint, or the drafter beside its .gguf file; null when there is none of the kind. */
function ownDrafter(model: Pick<LoadedModel, "spec">, kind: DraftSettings["draftKind"]): LoadedDrafter | null {
  const file = model.spec.tensors[0]?.file ?? "";
  const found = file.endsWith(".safetensors") ? findOwnDrafter(dirname(file), model) : findDrafterBeside(file, model);
  return kind === "auto" || found?.kind === kind ? found : null;
}
