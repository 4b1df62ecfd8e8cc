/** Picks the tensors that a model needs out of a checkpoint, and checks their types and shapes. */
import type { TensorEntry } from "../native/model_spec.ts";
import type { ExpectedTensor, FlatConfig, ResolvedModel } from "./architecture.ts";
import { ModelFileError } from "./model_file_error.ts";
import { quantizationOf } from "./quantization.ts";

/** Types that the native library turns into numbers: those of its table in dequantize.c. */
const VALUE_TYPES = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ4_NL IQ4_XS MXFP4".split(" ");
/** MLX's packed integers. */
const PACKED_TYPE = "U32";
export const FLOAT_TYPES: readonly string[] = ["F32", "F16", "BF16"];

/**
 * @param source names the checkpoint in errors.
 * @throws {ModelFileError} that names the tensor, what was found and what is expected.
 */
export function selectTensors(model: ResolvedModel, stored: ReadonlyMap<string, TensorEntry>, source: string): TensorEntry[] {
  const fail = (problem: string): never => {
    throw new ModelFileError(`Cannot use ${source}: ${problem}`);
  };
  return model.tensors.flatMap((expected) => {
    const tensor = stored.get(expected.storedName ?? expected.name);
    if (tensor !== undefined && expected.isQuantizable && tensor.type === PACKED_TYPE) {
      return quantizedParts(expected, model.config).map((part) => checked(part, stored.get(part.name), fail));
    }
    if (tensor === undefined && expected.isOptional) return [];
    return [checked({ types: VALUE_TYPES, ...expected }, tensor, fail)];
  });
}

type WantedTensor = Omit<ExpectedTensor, "types"> & { readonly types: readonly string[] };

type Fail = (problem: string) => never;

function checked(wanted: WantedTensor, tensor: TensorEntry | undefined, fail: Fail): TensorEntry {
  const { storedName = wanted.name, storedShape, otherShape } = wanted;
  const shape = `[${wanted.shape.join(", ")}]`;
  if (tensor === undefined) return fail(`it has no tensor ${storedName}, expected with the shape ${shape}`);
  if (!wanted.types.includes(tensor.type)) {
    fail(`tensor ${storedName} has the type ${tensor.type}; supported are ${wanted.types.join(", ")}`);
  }
  if (![wanted.shape, storedShape, otherShape].some((shape) => shape?.join() === tensor.shape.join())) {
    fail(`tensor ${storedName} has the shape [${tensor.shape.join(", ")}], expected ${shape}`);
  }
  return { ...tensor, name: wanted.name, shape: storedShape === undefined ? tensor.shape : wanted.shape };
}

/** MLX packs a row's integers into 32-bit words and keeps a scale, and in affine mode a bias, for each group. */
function quantizedParts(expected: ExpectedTensor, config: FlatConfig): WantedTensor[] {
  const module = expected.name.replace(/\.weight$/, "");
  const { bits, groupSize, mode } = quantizationOf(config, module);
  const rows = expected.shape.slice(0, -1);
  const columns = expected.shape.at(-1)!;
  if (bits === 0) {
    throw new ModelFileError(
      `Cannot use the model's config: tensor ${expected.name} is quantized, but the config has no quantization for it`,
    );
  }
  if (columns % groupSize !== 0) {
    throw new ModelFileError(
      `Cannot use the model's config: ${module} has ${columns} columns, which are no multiple of the group size ${groupSize}`,
    );
  }
  const words = { name: expected.name, shape: [...rows, columns * bits / 32], types: [PACKED_TYPE] };
  const groups = { shape: [...rows, columns / groupSize], types: FLOAT_TYPES };
  const scales = { ...groups, name: `${module}.scales` };
  return mode === "mxfp4" ? [words, { ...scales, types: ["U8"] }] : [words, scales, { ...groups, name: `${module}.biases` }];
}
