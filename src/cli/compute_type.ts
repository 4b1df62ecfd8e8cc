/** What a model computes in: what `--dtype` says, else what the device is good at and the memory allows. */
import { UsageError } from "./flags.ts";
import type { LoadedModel } from "../models/loaded_model.ts";
import { type HeldType, weightBytes } from "../models/memory_estimate.ts";
import type { ServeSettings } from "./arguments.ts";
import { sizeText } from "./size_text.ts";

export const DTYPES = ["auto", "float32", "bfloat16", "float16"] as const;
export type Dtype = (typeof DTYPES)[number];

export const KV_BITS = ["auto", "8"] as const;

export interface ComputeTypeSettings {
  readonly dtype: Dtype;
  readonly kvBits: (typeof KV_BITS)[number];
  readonly isGpu: boolean;
  /** What models may take. */
  readonly memoryBytes: number;
}

/**
 * What can be told without a look at the model.
 * @throws {UsageError} for flags of which one needs what the other takes away.
 */
export function checkComputeFlags({ dtype, kvBits, batchInvariant }: Pick<ServeSettings, "dtype" | "kvBits" | "batchInvariant">): void {
  if (dtype === "auto" || dtype === "float32") return;
  const wish = kvBits !== "auto" ? `--kv-bits ${kvBits}` : batchInvariant ? "--batch-invariant" : null;
  if (wish !== null) {
    throw new UsageError(`${wish} needs a model that computes in float32; found --dtype ${dtype}, expected auto or float32`);
  }
}

export interface TypedModel {
  readonly model: LoadedModel;
  readonly weightBytes: number;
  /** Why, with the figures. */
  readonly text: string;
}

/** Of the memory for models: the rest is for requests. */
const WEIGHTS_SHARE = 7 / 8;
/** Another type has to make weights smaller than this part of what they are. */
const WORTHWHILE = 3 / 4;

/**
 * The model with its compute type. Weights as they are stored are the fastest everywhere: a step reads all of them, and they are the
 * smallest. Only float32 checkpoints can be made smaller without quantizing them: where memory does not allow them, they become bfloat16.
 * When that does not fit either, the load says what is missing.
 */
export function chooseComputeType(model: LoadedModel, settings: ComputeTypeSettings): TypedModel {
  const typed = chooseWeights(model, settings);
  if (settings.kvBits !== "auto") checkKvBits(typed, settings);
  return settings.kvBits === "auto" ? typed : { ...typed, model: withConfig(typed.model, { kv_bits: settings.kvBits }) };
}

/** @throws {UsageError} where the native library could not do it. */
function checkKvBits({ model, text }: TypedModel, { kvBits, isGpu }: ComputeTypeSettings): void {
  const why = isGpu ? "models run on a GPU here" : model.spec.config["dtype"] === "bfloat16" ? text : null;
  if (why !== null) throw new UsageError(`--kv-bits ${kvBits} is for a CPU that computes in float32; found: ${why}`);
}

function chooseWeights(model: LoadedModel, settings: ComputeTypeSettings): TypedModel {
  const { dtype, isGpu, memoryBytes } = settings;
  const bytes = (held: HeldType): number => weightBytes(model.spec, held, isGpu);
  if (dtype !== "auto") return typed(model, dtype, bytes(dtype), `weights in ${dtype}, by --dtype: ${sizeText(bytes(dtype))}`);
  const stored = bytes("stored");
  const allowed = WEIGHTS_SHARE * memoryBytes;
  if (stored <= allowed || stored * WORTHWHILE < bytes("bfloat16")) {
    return typed(model, "auto", stored, `weights as stored: ${sizeText(stored)} of the ${sizeText(allowed)} that they may take`);
  }
  const text = `weights in bfloat16, which is slower: ${sizeText(bytes("bfloat16"))}; as stored ${sizeText(stored)}, they may take ${
    sizeText(allowed)
  }`;
  return typed(model, "bfloat16", bytes("bfloat16"), text);
}

function typed(model: LoadedModel, dtype: Dtype, numBytes: number, text: string): TypedModel {
  return { model: withConfig(model, { dtype }), weightBytes: numBytes, text };
}

function withConfig(model: LoadedModel, values: Readonly<Record<string, string>>): LoadedModel {
  return { ...model, spec: { ...model.spec, config: { ...model.spec.config, ...values } } };
}
