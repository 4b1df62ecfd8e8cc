/** Finds out what kind of drafter a folder holds, and reads it for a model. */
import { resolve } from "node:path";
import type { TensorEntry } from "../native/model_spec.ts";
import { DRAFTER_KINDS, type DrafterKind, type LoadedDrafter, type ResolvedDrafter, type TargetShape } from "./drafter.ts";
import { resolveDflash } from "./drafter_dflash.ts";
import { resolveEagle3 } from "./drafter_eagle3.ts";
import { resolveMtp } from "./drafter_mtp.ts";
import type { LoadedModel } from "./loaded_model.ts";
import { ModelFileError } from "./model_file_error.ts";
import { readFolderTensors } from "./safetensors_folder.ts";
import { FLOAT_TYPES, selectTensors } from "./tensor_table.ts";
import { readJsonFile } from "./text_file.ts";

/**
 * Bits that float weights of a drafter are rounded to beside a quantized model, where the native library has products for them: a third of the
 * bytes to read, and as many right drafts.
 */
const DENSE_BITS = 4;

type Resolve = (config: unknown, hasTensor: (name: string) => boolean, target: TargetShape) => ResolvedDrafter;

const RESOLVERS: Readonly<Record<DrafterKind, Resolve>> = { mtp: resolveMtp, eagle3: resolveEagle3, dflash: resolveDflash };

/** The kind that a config.json and its tensors tell, null when they tell none: a plain model, for example. */
export function detectDrafterKind(config: Readonly<Record<string, unknown>>, hasTensor: (name: string) => boolean): DrafterKind | null {
  const architectures = Array.isArray(config["architectures"]) ? config["architectures"].map(String) : [];
  const isNamed = (name: string): boolean =>
    [config["model_type"], config["speculators_model_type"]].includes(name) ||
    architectures.some((architecture) => architecture.toLowerCase().includes(name));
  if (isNamed("eagle3")) return "eagle3";
  if (isNamed("dflash") || (config["dflash_config"] ?? null) !== null) return "dflash";
  return config["model_type"] === "qwen3_5_mtp" || hasTensor("mtp.fc.weight") ? "mtp" : null;
}

/** A model's sizes, from its flat config. */
export function targetShape({ spec: { config } }: Pick<LoadedModel, "spec">): TargetShape {
  return {
    modelType: String(config["model_type"]),
    vocabSize: Number(config["vocab_size"]),
    hiddenSize: Number(config["hidden_size"]),
    numLayers: Number(config["num_hidden_layers"]),
  };
}

/** Most of the model's bytes are no floats: it is meant to be fast rather than exact, and a drafter even more so. */
function isQuantized({ spec: { tensors } }: Pick<LoadedModel, "spec">): boolean {
  const bytes = (list: readonly TensorEntry[]): number => list.reduce((sum, { byteLength }) => sum + byteLength, 0);
  return 2 * bytes(tensors.filter(({ type }) => !FLOAT_TYPES.includes(type))) > bytes(tensors);
}

/** The drafter that a model's own checkpoint has beside its weights (an MTP head without experts); null when it has none. @throws {ModelFileError} as `loadDrafter` */
export function findOwnDrafter(folder: string, model: Pick<LoadedModel, "spec">): LoadedDrafter | null {
  const config = readJsonFile(`${resolve(folder)}/config.json`);
  if (config === null) return null;
  if (model.spec.config["num_experts"] !== undefined) return null;
  const tensors = readFolderTensors(resolve(folder));
  return detectDrafterKind(config, (name) => tensors.has(name)) === "mtp" ? loadDrafter(folder, model, "mtp") : null;
}

/** Where the drafter of a .gguf file lies: `name.drafter` beside `name.gguf`. */
export function drafterFolderOf(ggufPath: string): string {
  return `${ggufPath.replace(/\.gguf$/, "")}.drafter`;
}

/** The drafter that lies beside a .gguf file; null when there is none. @throws {ModelFileError} as `loadDrafter` */
export function findDrafterBeside(ggufPath: string, model: Pick<LoadedModel, "spec">): LoadedDrafter | null {
  const folder = drafterFolderOf(resolve(ggufPath));
  return readJsonFile(`${folder}/config.json`) === null ? null : loadDrafter(folder, model);
}

interface DrafterFolder {
  readonly source: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  /** What the folder tells; where it tells nothing, what it was asked for. */
  readonly kind: DrafterKind;
}

function readDrafterFolder(folder: string, wanted?: DrafterKind): DrafterFolder {
  const source = resolve(folder);
  checkFolder(source);
  const config = readJsonFile(`${source}/config.json`);
  if (config === null) throw new ModelFileError(`Cannot use ${source} as a drafter: it has no config.json`);
  const tensors = readFolderTensors(source);
  const kind = detectDrafterKind(config, (name) => tensors.has(name)) ?? wanted;
  if (kind !== undefined) return { source, config, tensors, kind };
  throw new ModelFileError(
    `Cannot use ${source} as a drafter: model_type ${JSON.stringify(config["model_type"])} is none of ${DRAFTER_KINDS.join(", ")}`,
  );
}

function checkFolder(path: string): void {
  const fault = (what: string): ModelFileError =>
    new ModelFileError(`Cannot use ${path} as a drafter: ${what}; expected a folder with config.json and .safetensors files`);
  try {
    if (Deno.statSync(path).isDirectory) return;
  } catch (error) {
    throw fault(error instanceof Deno.errors.NotFound ? "it does not exist" : (error as Error).message);
  }
  throw fault("it is a file");
}

/**
 * The kind of drafter that `folder` says it holds; `wanted` where it says nothing. The model need not be there for it.
 * @throws {ModelFileError} when there is no such folder, when it holds no drafter, or when its files are missing or damaged.
 */
export function drafterKindOf(folder: string, wanted?: DrafterKind): DrafterKind {
  return readDrafterFolder(folder, wanted).kind;
}

/**
 * Reads the drafter in `folder` for `model`: a drafter's own folder, or the model's when its checkpoint has an MTP head. Weights stay where they
 * are. `kind` overrides what the folder tells.
 * @throws {ModelFileError} when there is none, when something is missing or damaged, or when it does not fit the model.
 */
export function loadDrafter(folder: string, model: Pick<LoadedModel, "spec">, kind?: DrafterKind): LoadedDrafter {
  const { source, config, tensors, kind: ownKind } = readDrafterFolder(folder, kind);
  const found = kind ?? ownKind;
  const drafter = RESOLVERS[found](config, (name) => tensors.has(name), targetShape(model));
  const { capture, numDraftTokens, maskTokenId } = drafter;
  const { dtype = "auto", served_context } = model.spec.config;
  const shared = {
    dtype,
    ...(served_context === undefined ? {} : { served_context }),
    ...(dtype === "auto" && isQuantized(model) ? { dense_bits: DENSE_BITS } : {}),
  };
  const spec = { config: { ...drafter.config, ...shared }, tensors: selectTensors(drafter, tensors, source) };
  return { kind: found, capture, numDraftTokens, maskTokenId, spec };
}
