/**
 * What a checkpoint's weights take in memory: the one place that knows how the native library holds each stored type. It has to agree with
 * `stored_matrix_format` there; a test loads checkpoints and compares.
 */
import type { ModelSpec, TensorEntry } from "../native/model_spec.ts";
import { quantizationOf } from "./quantization.ts";

/** How weights are held: all in one type, or matrices as they are stored. */
export type HeldType = "float32" | "float16" | "bfloat16" | "stored";

const DENSE_BYTES: Readonly<Record<Exclude<HeldType, "stored">, number>> = { float32: 4, float16: 2, bfloat16: 2 };

/** Bits of the integers that ggml's blocks become when they are kept; each group of 32 has a scale and a bias. */
const REPACKED_BITS: Readonly<Record<string, number>> = { Q4_0: 4, Q4_1: 4, Q5_0: 5, Q5_1: 5, Q8_0: 8, Q4_K: 4, Q5_K: 5 };
const REPACKED_GROUP = 32;
/** Blocks that are not kept become float16. */
const KEPT_BYTES: Readonly<Record<string, number>> = { F32: 4, F16: 2, BF16: 2 };
const OTHER_KEPT_BYTES = 2;

/** MLX's packed integers. */
const PACKED_TYPE = "U32";
const QUANTIZED_PARTS = /\.(scales|biases)$/;

/** Bytes that the weights of `spec` take. On a CPU, what is kept as stored is computed in float32: vectors and scales are. */
export function weightBytes(spec: ModelSpec, held: HeldType, isGpu: boolean): number {
  const packed = new Set(spec.tensors.filter(({ type }) => type === PACKED_TYPE).map(({ name }) => name.replace(/\.weight$/, "")));
  return spec.tensors.reduce((sum, tensor) => sum + bytesOf(tensor, spec, packed, held, isGpu ? 2 : 4), 0);
}

function bytesOf(
  tensor: TensorEntry,
  spec: ModelSpec,
  packed: ReadonlySet<string>,
  held: HeldType,
  activationBytes: number,
): number {
  const numValues = tensor.shape.reduce((product, size) => product * size, 1);
  const isPart = QUANTIZED_PARTS.test(tensor.name) && packed.has(tensor.name.replace(QUANTIZED_PARTS, ""));
  if (held !== "stored") {
    if (isPart) return 0;
    return numWeights(tensor, numValues, spec) * DENSE_BYTES[held];
  }
  if (tensor.type === PACKED_TYPE) return tensor.byteLength;
  if (isPart) return tensor.type === "U8" ? tensor.byteLength : numValues * activationBytes;
  if (tensor.shape.length === 1) return numValues * activationBytes;
  const bits = REPACKED_BITS[tensor.type];
  if (bits !== undefined) return numValues * bits / 8 + numValues / REPACKED_GROUP * 2 * activationBytes;
  return numValues * (KEPT_BYTES[tensor.type] ?? OTHER_KEPT_BYTES);
}

/** Packed words hold several weights each. */
function numWeights({ name, type }: TensorEntry, numValues: number, { config }: ModelSpec): number {
  return type === PACKED_TYPE ? numValues * 32 / quantizationOf(config, name.replace(/\.weight$/, "")).bits : numValues;
}
