import { dirname } from "node:path";
import type { SpeculationOptions } from "../engine/messages.ts";
import type { LoadedDrafter } from "../models/drafter.ts";
import { findDrafterBeside, findOwnDrafter, loadDrafter } from "../models/drafters.ts";
import type { LoadedModel } from "../models/loaded_model.ts";
import type { ServeSettings } from "./arguments.ts";
import { UsageError } from "./flags.ts";

export type DraftSettings = Pick<ServeSettings, "noSpeculation" | "draftModel" | "draftKind" | "draftTokens">;

/**
 * What the flags say about drafting for `model`; null: nothing is drafted.
 * @throws {UsageError} when the flags contradict each other.
 * @throws {ModelFileError} when a drafter cannot be read or does not fit the model.
 */
export function chooseDrafter(model: Pick<LoadedModel, "spec">, settings: DraftSettings): SpeculationOptions | null {
  const { noSpeculation, draftModel, draftKind, draftTokens } = settings;
  checkFlags(settings);
  if (noSpeculation) return null;
  let drafter: LoadedDrafter | null = null;
  if (draftModel !== null) drafter = loadDrafter(draftModel, model, draftKind === "auto" || draftKind === "ngram" ? undefined : draftKind);
  else if (draftKind !== "ngram") drafter = ownDrafter(model, draftKind);
  if (drafter === null && draftKind !== "auto" && draftKind !== "ngram") {
    throw new UsageError(`--draft-kind is "${draftKind}", and the model has no such drafter of its own; expected --draft-model beside it`);
  }
  return { drafter, ...(draftTokens === null ? {} : { maxDrafts: draftTokens }) };
}

function checkFlags({ noSpeculation, draftModel, draftKind }: DraftSettings): void {
  if (draftModel !== null && noSpeculation) throw new UsageError("--draft-model and --no-speculation are both given, expected one of them");
  if (draftModel !== null && draftKind === "ngram") {
    throw new UsageError(`--draft-kind is "ngram", which needs no weights; found --draft-model ${draftModel} beside it`);
  }
}

/** The head in the model's own checkpoint, or the drafter beside its .gguf file; null when there is none of the kind. */
function ownDrafter(model: Pick<LoadedModel, "spec">, kind: DraftSettings["draftKind"]): LoadedDrafter | null {
  const file = model.spec.tensors[0]?.file ?? "";
  const found = file.endsWith(".safetensors") ? findOwnDrafter(dirname(file), model) : findDrafterBeside(file, model);
  return kind === "auto" || found?.kind === kind ? found : null;
}
