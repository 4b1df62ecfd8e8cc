/**
 * What a checkpoint's weights take in memory: the one place on this side that knows how the native library holds each stored type. It has to
 * agree with `stored_matrix_format` there: a test loads checkpoints and compares.
 */
import type { ModelSpec, TensorEntry } from "../native/model_spec.ts";
import { quantizationOf } from "./quantization.ts";

/** How weights are held: all in one type, or matrices as they are stored. */
export type HeldType = "float32" | "float16" | "bfloat16" | "stored";

const DENSE_BYTES: Readonly<Record<Exclude<HeldType, "stored">, number>> = { float32: 4, float16: 2, bfloat16: 2 };
/** Types that are kept; what cannot be kept becomes float16. */
const KEPT_BYTES: Readonly<Record<string, number>> = { F32: 4, F16: 2, BF16: 2 };
const OTHER_BYTES = 2;

/** On a CPU, 32 quantized values are one of three blocks: integers of 4 bits or of 8 with a scale and a bias, or of 8 with two of each. */
const BLOCK_VALUES = 32;
const BLOCK_BYTES = { of4: 24, of8: 40, of8Halves: 48 } as const;
const GGML_BLOCKS: Readonly<Record<string, keyof typeof BLOCK_BYTES>> = {
  Q4_0: "of4",
  Q4_1: "of4",
  Q4_K: "of4",
  Q5_0: "of8",
  Q5_1: "of8",
  Q5_K: "of8",
  Q8_0: "of8",
  Q6_K: "of8Halves",
};

/** On a GPU, they are MLX's: packed integers, and for each group a scale and a bias in half precision. */
const GGML_BITS: Readonly<Record<string, number>> = { Q4_0: 4, Q4_1: 4, Q4_K: 4, Q5_0: 5, Q5_1: 5, Q5_K: 5, Q8_0: 8 };
const GPU_GROUP_BYTES = 4;

/** MLX's packed integers in a checkpoint, and what lies beside them. */
const PACKED_TYPE = "U32";
const QUANTIZED_PARTS = /\.(scales|biases)$/;

/** Bytes that the weights of `spec` take in memory. */
export function weightBytes(spec: ModelSpec, held: HeldType, isGpu: boolean): number {
  const packed = new Set(spec.tensors.filter(({ type }) => type === PACKED_TYPE).map(({ name }) => moduleOf(name)));
  const bytesOf = (tensor: TensorEntry): number => {
    if (QUANTIZED_PARTS.test(tensor.name) && packed.has(tensor.name.replace(QUANTIZED_PARTS, ""))) {
      return held === "stored" && isGpu ? tensor.byteLength : 0;
    }
    if (held !== "stored") return numWeights(tensor, spec) * DENSE_BYTES[held];
    return isGpu ? bytesOnGpu(tensor) : bytesOnCpu(tensor, spec);
  };
  return spec.tensors.reduce((sum, tensor) => sum + bytesOf(tensor), 0);
}

function bytesOnCpu(tensor: TensorEntry, spec: ModelSpec): number {
  const count = numWeights(tensor, spec);
  // Norms and biases are computed with as they are: in float32.
  if (tensor.shape.length === 1) return count * DENSE_BYTES.float32;
  const kind = tensor.type === PACKED_TYPE ? blocksOfMlx(tensor, spec) : GGML_BLOCKS[tensor.type];
  return kind === undefined ? count * (KEPT_BYTES[tensor.type] ?? OTHER_BYTES) : count / BLOCK_VALUES * BLOCK_BYTES[kind];
}

function blocksOfMlx({ name }: TensorEntry, { config }: ModelSpec): keyof typeof BLOCK_BYTES {
  const { bits, mode } = quantizationOf(config, moduleOf(name));
  return bits <= 4 && mode === "affine" ? "of4" : "of8";
}

function bytesOnGpu(tensor: TensorEntry): number {
  if (tensor.type === PACKED_TYPE) return tensor.byteLength;
  const count = product(tensor.shape);
  const bits = GGML_BITS[tensor.type];
  return bits === undefined ? count * (KEPT_BYTES[tensor.type] ?? OTHER_BYTES) : count * bits / 8 + count / BLOCK_VALUES * GPU_GROUP_BYTES;
}

/** Packed words hold several weights each. */
function numWeights({ name, type, shape }: TensorEntry, { config }: ModelSpec): number {
  return type === PACKED_TYPE ? product(shape) * 32 / quantizationOf(config, moduleOf(name)).bits : product(shape);
}

function moduleOf(name: string): string {
  return name.replace(/\.weight$/, "");
}

function product(shape: readonly number[]): number {
  return shape.reduce((result, size) => result * size, 1);
}
