/** What a drafter's file (`drafter_mtp.ts`, …) tells about it. */
import type { FeatureCapture } from "../native/native_model.ts";
import type { ModelSpec } from "../native/model_spec.ts";
import type { ResolvedModel } from "./architecture.ts";
import { ModelFileError } from "./model_file_error.ts";

export const DRAFTER_KINDS = ["mtp", "eagle3", "dflash"] as const;
export type DrafterKind = (typeof DRAFTER_KINDS)[number];

/** What has to fit between a drafter and its model. */
export interface TargetShape {
  readonly modelType: string;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly numLayers: number;
}

/** How a drafter is used, beside its weights. */
export interface DrafterUse {
  readonly kind: DrafterKind;
  /** What every forward of the model has to leave for it. */
  readonly capture: FeatureCapture;
  /** Drafts of a round that it was made for; more are possible, except for dflash. */
  readonly numDraftTokens: number;
  /** Fills a dflash block behind the newest token; null for the others. */
  readonly maskTokenId: number | null;
}

export interface ResolvedDrafter extends DrafterUse, ResolvedModel {}

/** A drafter that was found, read and checked against its model, ready for `NativeDrafter.load`. */
export interface LoadedDrafter extends DrafterUse {
  readonly spec: ModelSpec;
}

/** @throws {ModelFileError} that says what does not fit. */
export function refuseDrafter(what: string, found: unknown, wanted: unknown): never {
  throw new ModelFileError(
    `The drafter does not fit the model: ${what} is ${JSON.stringify(found)}, the model's is ${JSON.stringify(wanted)}`,
  );
}

export function checkFits(what: string, found: number | undefined, wanted: number): void {
  if (found !== undefined && found !== wanted) refuseDrafter(what, found, wanted);
}

/** Decoder layers that count from 0, each inside the model. */
export function checkLayers(key: string, layers: readonly number[], { numLayers }: TargetShape): void {
  const wrong = layers.find((layer) => layer < 0 || layer >= numLayers);
  if (layers.length === 0 || wrong !== undefined) {
    throw new ModelFileError(
      `The drafter does not fit the model: ${key} names layer ${wrong ?? "none"} (from 0), the model has ${numLayers} layers`,
    );
  }
}
