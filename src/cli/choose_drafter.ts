import { dirname, join } from "node:path";
import type { SpeculationOptions } from "../engine/messages.ts";
import type { DrafterKind, LoadedDrafter } from "../models/drafter.ts";
import { drafterFolderOf, drafterKindOf, findDrafterBeside, findOwnDrafter, loadDrafter } from "../models/drafters.ts";
import type { LoadedModel } from "../models/loaded_model.ts";
import type { ServeSettings } from "./arguments.ts";
import { UsageError } from "./flags.ts";
import { checkFolder } from "./model_folder.ts";

const KIND_NAMES: Readonly<Record<DrafterKind, string>> = { mtp: "an MTP head", eagle3: "an EAGLE-3 drafter", dflash: "a DFlash drafter" };

export type DraftSettings = Pick<ServeSettings, "noSpeculation" | "draftModel" | "draftKind" | "draftTokens">;

/**
 * What the flags, which `checkDraftFlags` has checked, say about drafting for `model`; null: nothing is drafted.
 * @throws {UsageError} when the model has no drafter of the kind that is asked for.
 * @throws {ModelFileError} when a drafter cannot be read or does not fit the model.
 */
export function chooseDrafter(model: Pick<LoadedModel, "spec">, settings: DraftSettings): SpeculationOptions | null {
  const { noSpeculation, draftModel, draftKind, draftTokens } = settings;
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
export function checkDraftFlags(settings: DraftSettings): void {
  const { draftModel, draftKind } = settings;
  if (settings.noSpeculation) checkNoDraftFlag(settings);
  if (draftModel !== null && draftKind === "ngram") {
    throw new UsageError(`--draft-kind is "ngram", which needs no weights; found --draft-model ${draftModel} beside it`);
  }
  if (draftModel === null) return;
  checkFolder(draftModel, "drafter");
  const wanted = wantedKind(draftKind);
  const found = drafterKindOf(draftModel, wanted);
  if (wanted !== undefined && wanted !== found) {
    throw new UsageError(`--draft-kind is "${wanted}", and ${draftModel} holds ${KIND_NAMES[found]}; expected "${found}" or "auto"`);
  }
}

/** What is drafted with, where nothing is to be drafted. */
function checkNoDraftFlag({ draftModel, draftKind, draftTokens }: DraftSettings): void {
  const isGiven = { "--draft-model": draftModel !== null, "--draft-kind": draftKind !== "auto", "--draft-tokens": draftTokens !== null };
  for (const [flag, given] of Object.entries(isGiven)) {
    if (given) throw new UsageError(`${flag} and --no-speculation are both given, expected one of them`);
  }
}

/**
 * What can be told from where the model lies.
 * @param path its folder or `.gguf` file.
 * @throws {UsageError} when it cannot have a drafter of the kind that is asked for.
 * @throws {ModelFileError} when the folder beside it holds no drafter.
 */
export function checkOwnDrafter(path: string, { noSpeculation, draftModel, draftKind }: DraftSettings): void {
  if (noSpeculation || draftModel !== null || draftKind === "ngram") return;
  // A checkpoint's own head is of one kind; a .gguf file has none, but there may be a folder beside it.
  const beside = path.endsWith(".gguf") ? drafterFolderOf(path) : null;
  const isBeside = beside !== null && exists(join(beside, "config.json"));
  if (isBeside) checkFolder(beside, "drafter");
  if (draftKind !== "auto" && !isBeside && (beside !== null || draftKind !== "mtp")) throw noOwnDrafter(draftKind);
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
