import { dirname } from "node:path";
import type { SpeculationOptions } from "../engine/messages.ts";
import type { LoadedDrafter } from "../models/drafter.ts";
import { findOwnDrafter, loadDrafter } from "../models/drafters.ts";
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
  else if (draftKind === "auto" || draftKind === "mtp") drafter = ownDrafter(model);
  if (drafter === null && draftKind === "mtp") {
    throw new UsageError('--draft-kind is "mtp", and the model has no such head of its own; expected --draft-model beside it');
  }
  return { drafter, ...(draftTokens === null ? {} : { maxDrafts: draftTokens }) };
}

function checkFlags({ noSpeculation, draftModel, draftKind }: DraftSettings): void {
  if (draftModel !== null && noSpeculation) throw new UsageError("--draft-model and --no-speculation are both given, expected one of them");
  if (draftModel !== null && draftKind === "ngram") {
    throw new UsageError(`--draft-kind is "ngram", which needs no weights; found --draft-model ${draftModel} beside it`);
  }
  if (draftModel === null && (draftKind === "eagle3" || draftKind === "dflash")) {
    throw new UsageError(`--draft-kind is "${draftKind}", which needs --draft-model`);
  }
}

/** A GGUF file has no head beside its weights. */
function ownDrafter(model: Pick<LoadedModel, "spec">): LoadedDrafter | null {
  const file = model.spec.tensors[0]?.file ?? "";
  return file.endsWith(".safetensors") ? findOwnDrafter(dirname(file), model) : null;
}
