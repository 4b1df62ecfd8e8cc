/** Reads and checks the header of a safetensors file. The tensors' data is not read. */
import type { TensorEntry } from "../native/model_spec.ts";
import { FileReader } from "./file_reader.ts";
import { checkRegions } from "./tensor_regions.ts";

/** Bits of one value. */
const DTYPE_BITS: ReadonlyMap<string, number> = new Map([
  ...["F64", "I64", "U64", "C64"].map((dtype) => [dtype, 64] as const),
  ...["F32", "I32", "U32"].map((dtype) => [dtype, 32] as const),
  ...["F16", "BF16", "I16", "U16"].map((dtype) => [dtype, 16] as const),
  ...["I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"].map((dtype) => [dtype, 8] as const),
  ...["F6_E2M3", "F6_E3M2"].map((dtype) => [dtype, 6] as const),
  ["F4", 4],
]);

/** A tenth of a kilobyte a tensor: enough for 200,000 of them. */
const MAX_HEADER_BYTES = 1 << 25;
const MAX_DIMS = 8;
const LENGTH_BYTES = 8;

/** @throws {ModelFileError} when the header is not what the format, or the file's size, allows. */
export function readSafetensors(path: string): TensorEntry[] {
  using reader = new FileReader(path);
  const headerBytes = reader.u64("the header's length");
  if (headerBytes > MAX_HEADER_BYTES) reader.fail(`the header's length is ${headerBytes}, at most ${MAX_HEADER_BYTES} is allowed`);
  const header = parseHeader(reader, reader.text(headerBytes, "the header"));
  const dataStart = LENGTH_BYTES + headerBytes;
  const tensors: TensorEntry[] = [];
  for (const [name, value] of Object.entries(header)) {
    if (name !== "__metadata__") tensors.push(readEntry(reader, name, value, dataStart));
  }
  checkRegions(tensors, path, reader.fileBytes);
  checkCoverage(reader, tensors, dataStart);
  return tensors;
}

function parseHeader(reader: FileReader, text: string): Record<string, unknown> {
  if (!text.startsWith("{")) reader.fail(`the header starts with ${JSON.stringify(text.slice(0, 8))} instead of "{"`);
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch (error) {
    return reader.fail(`the header is no JSON: ${error instanceof Error ? error.message : error}`);
  }
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && item >= 0);
}

function readEntry(reader: FileReader, name: string, value: unknown, dataStart: number): TensorEntry {
  // The name becomes a field of a tab-separated table.
  if (!/^[\x21-\x7e]{1,1024}$/.test(name)) {
    reader.fail(`a tensor is called ${JSON.stringify(name.slice(0, 80))}, only printable ASCII is allowed`);
  }
  const { dtype, shape, data_offsets: offsets } = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const bits = DTYPE_BITS.get(String(dtype)) ?? reader.fail(`tensor ${name} has the dtype ${JSON.stringify(dtype)?.slice(0, 80)}`);
  if (!isCounts(shape) || shape.length > MAX_DIMS) {
    return reader.fail(`tensor ${name} has the shape ${JSON.stringify(shape)?.slice(0, 80)}, allowed are up to ${MAX_DIMS} sizes`);
  }
  if (!isCounts(offsets) || offsets.length !== 2 || offsets[0]! > offsets[1]!) {
    return reader.fail(`tensor ${name} has the data_offsets ${JSON.stringify(offsets)?.slice(0, 80)}, wanted are begin and end`);
  }
  const byteLength = offsets[1]! - offsets[0]!;
  const wantedBits = shape.reduce((product, dim) => product * dim, bits);
  if (wantedBits !== byteLength * 8) {
    reader.fail(`tensor ${name} has ${byteLength} bytes, but ${dtype} ${JSON.stringify(shape)} needs ${wantedBits / 8}`);
  }
  return { name, type: String(dtype), file: reader.path, offset: dataStart + offsets[0]!, byteLength, shape };
}

/** The format has no gaps and nothing after the last tensor: a file that has is cut short, mixed up or hides something. */
function checkCoverage(reader: FileReader, tensors: readonly TensorEntry[], dataStart: number): void {
  const dataBytes = tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
  const wanted = reader.fileBytes - dataStart;
  if (dataBytes !== wanted) reader.fail(`its tensors have ${dataBytes} bytes together, but ${wanted} bytes follow the header`);
}
