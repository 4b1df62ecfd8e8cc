/** What a model computes in: what `--dtype` says, else what the device is good at and the memory allows. */
import type { LoadedModel } from "../models/loaded_model.ts";
import { type HeldType, weightBytes } from "../models/memory_estimate.ts";
import { NativeLibrary } from "../native/library.ts";
import { sizeText } from "./size_text.ts";

export const DTYPES = ["auto", "float32", "bfloat16", "float16"] as const;
export type Dtype = (typeof DTYPES)[number];

export interface ComputeTypeSettings {
  readonly dtype: Dtype;
  readonly isGpu: boolean;
  /** What models may take. */
  readonly memoryBytes: number;
}

export interface TypedModel {
  readonly model: LoadedModel;
  readonly weightBytes: number;
  /** Why, with the figures. */
  readonly text: string;
}

/**
 * By speed on a CPU: MLX's products are fast in float32 alone. Matrices as they are stored are the smallest where they are quantized; without
 * quantization they are as large as in bfloat16, which is slower.
 */
const CPU_TYPES: readonly HeldType[] = ["float32", "stored", "bfloat16"];
/** Of the memory for models: the rest is for requests. */
const WEIGHTS_SHARE = 7 / 8;

/** The model with its compute type. When nothing fits, the smallest is taken: the load then says what is missing. */
export function chooseComputeType(model: LoadedModel, settings: ComputeTypeSettings): TypedModel {
  const { dtype, isGpu, memoryBytes } = settings;
  const bytes = (held: HeldType): number => weightBytes(model.spec, held, isGpu);
  if (dtype !== "auto") return typed(model, dtype, bytes(dtype), `weights in ${dtype}, by --dtype: ${sizeText(bytes(dtype))}`);
  if (isGpu) return typed(model, "stored", bytes("stored"), `weights as stored: ${sizeText(bytes("stored"))}`);
  const allowed = WEIGHTS_SHARE * memoryBytes;
  const smallest = CPU_TYPES.reduce((best, held) => bytes(held) < bytes(best) ? held : best);
  const chosen = CPU_TYPES.find((held) => bytes(held) <= allowed) ?? smallest;
  const limit = `${sizeText(allowed)} are for weights`;
  const text = chosen === CPU_TYPES[0]
    ? `weights in float32: ${sizeText(bytes(chosen))} (${sizeText(bytes("stored"))} as stored), ${limit}`
    : `weights ${chosen === "stored" ? "as stored" : `in ${chosen}`}: ${sizeText(bytes(chosen))}, ${limit}; float32, which is faster, ` +
      `would take ${sizeText(bytes("float32"))}`;
  return typed(model, chosen, bytes(chosen), text);
}

function typed(model: LoadedModel, dtype: HeldType, numBytes: number, text: string): TypedModel {
  return { model: { ...model, spec: { ...model.spec, config: { ...model.spec.config, dtype } } }, weightBytes: numBytes, text };
}

/** Whether models will run on a GPU. */
export function hasGpu(libraryPath: string): boolean {
  const library = NativeLibrary.open(libraryPath);
  try {
    return library.buildInfo()["device"] !== "cpu";
  } finally {
    library.close();
  }
}
