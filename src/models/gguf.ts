/** Reads and checks the header of a GGUF file: metadata and tensor table. The tensors' data is not read. */
import type { TensorEntry } from "../native/model_spec.ts";
import { FileReader } from "./file_reader.ts";
import { GGML_TYPES } from "./ggml_types.ts";
import { GgufMetadata, type GgufScalar, type GgufValue } from "./gguf_metadata.ts";
import { checkRegions } from "./tensor_regions.ts";

export interface GgufFile {
  readonly path: string;
  readonly version: number;
  readonly metadata: GgufMetadata;
  /** Names as they stand in the file; shapes row-major. */
  readonly tensors: readonly TensorEntry[];
}

const MAGIC = 0x46554747;
const DEFAULT_ALIGNMENT = 32;

/** Far above what model files have; they bound what a damaged file can make us do. */
const LIMITS = {
  numPairs: 1 << 16,
  numTensors: 1 << 18,
  keyBytes: 65_535,
  nameBytes: 1024,
  stringBytes: 1 << 24,
  numElements: 1 << 22,
  headerBytes: 1 << 28,
  numDims: 4,
  dim: 2 ** 31 - 1,
  alignment: 1 << 20,
} as const;

/** @throws {ModelFileError} when anything in the header is not what the format, or the file's size, allows. */
export function readGguf(path: string): GgufFile {
  using reader = new FileReader(path);
  const version = readVersion(reader);
  const numTensors = count(reader, "the number of tensors", LIMITS.numTensors);
  const numPairs = count(reader, "the number of metadata pairs", LIMITS.numPairs);
  const metadata = new GgufMetadata(path, readPairs(reader, numPairs));
  const tensors: RawTensor[] = [];
  for (let i = 0; i < numTensors; i++) tensors.push(readTensor(reader, i));
  return { path, version, metadata, tensors: placeTensors(reader, metadata, tensors) };
}

function readVersion(reader: FileReader): number {
  const magic = reader.u32("the magic number");
  if (magic !== MAGIC) reader.fail(`it starts with 0x${magic.toString(16).padStart(8, "0")} instead of "GGUF"`);
  const version = reader.u32("the version");
  if (version >= 1 << 24 && version % (1 << 24) === 0) reader.fail("it is a big-endian GGUF; only little-endian files are supported");
  if (version !== 2 && version !== 3) reader.fail(`it has GGUF version ${version}; supported are 2 and 3`);
  return version;
}

function count(reader: FileReader, what: string, limit: number): number {
  const value = reader.u64(what);
  if (value > limit) reader.fail(`${what} is ${value}, at most ${limit} is allowed`);
  return value;
}

function readString(reader: FileReader, what: string, limit: number): string {
  return reader.text(count(reader, `the length of ${what}`, limit), what);
}

function readPairs(reader: FileReader, numPairs: number): Map<string, GgufValue> {
  const pairs = new Map<string, GgufValue>();
  for (let i = 0; i < numPairs; i++) {
    const key = readString(reader, `metadata key ${i}`, LIMITS.keyBytes);
    if (!/^[\x21-\x7e]+$/.test(key)) {
      reader.fail(`metadata key ${i} is ${JSON.stringify(key.slice(0, 80))}, only printable ASCII is allowed`);
    }
    if (pairs.has(key)) reader.fail(`metadata key ${key} occurs twice`);
    pairs.set(key, readValue(reader, key));
    if (reader.position > LIMITS.headerBytes) reader.fail(`the metadata is longer than ${LIMITS.headerBytes} bytes`);
  }
  return pairs;
}

type Scalar = { readonly bytes: number; readonly read: (reader: FileReader, what: string) => GgufScalar };

const STRING_TYPE = 8;
const ARRAY_TYPE = 9;

/** By type number; `bytes` is the least that a value takes. */
const SCALARS: ReadonlyMap<number, Scalar> = new Map<number, Scalar>([
  [0, { bytes: 1, read: (reader, what) => reader.u8(what) }],
  [1, { bytes: 1, read: (reader, what) => reader.i8(what) }],
  [2, { bytes: 2, read: (reader, what) => reader.u16(what) }],
  [3, { bytes: 2, read: (reader, what) => reader.i16(what) }],
  [4, { bytes: 4, read: (reader, what) => reader.u32(what) }],
  [5, { bytes: 4, read: (reader, what) => reader.i32(what) }],
  [6, { bytes: 4, read: (reader, what) => reader.f32(what) }],
  [7, { bytes: 1, read: readBoolean }],
  [STRING_TYPE, { bytes: 8, read: (reader, what) => readString(reader, what, LIMITS.stringBytes) }],
  [10, { bytes: 8, read: (reader, what) => reader.u64(what) }],
  [11, { bytes: 8, read: (reader, what) => reader.i64(what) }],
  [12, { bytes: 8, read: (reader, what) => reader.f64(what) }],
]);

function readBoolean(reader: FileReader, what: string): boolean {
  const value = reader.u8(what);
  if (value > 1) reader.fail(`${what} is the boolean ${value}, allowed are 0 and 1`);
  return value === 1;
}

function scalarType(reader: FileReader, type: number, what: string): Scalar {
  return SCALARS.get(type) ?? reader.fail(`${what} has the value type ${type}, allowed are 0 to 12`);
}

function readValue(reader: FileReader, key: string): GgufValue {
  const type = reader.u32(`the type of ${key}`);
  return type === ARRAY_TYPE ? readArray(reader, key) : scalarType(reader, type, key).read(reader, key);
}

function readArray(reader: FileReader, key: string): GgufValue {
  const type = reader.u32(`the element type of ${key}`);
  if (type === ARRAY_TYPE) reader.fail(`${key} is an array of arrays, which is not supported`);
  const element = scalarType(reader, type, key);
  const length = count(reader, `the length of ${key}`, LIMITS.numElements);
  if (length * element.bytes > reader.remainingBytes) {
    reader.fail(`${key} has ${length} elements of at least ${element.bytes} bytes, but the file ends after ${reader.remainingBytes} more`);
  }
  const values: GgufScalar[] = [];
  const what = `an element of ${key}`;
  for (let i = 0; i < length; i++) {
    values.push(element.read(reader, what));
    if (type === STRING_TYPE && reader.position > LIMITS.headerBytes) {
      reader.fail(`the metadata is longer than ${LIMITS.headerBytes} bytes`);
    }
  }
  return values as GgufValue;
}

interface RawTensor {
  readonly name: string;
  readonly type: string;
  readonly shape: readonly number[];
  readonly byteLength: number;
  /** From the start of the data section. */
  readonly dataOffset: number;
}

function readTensor(reader: FileReader, index: number): RawTensor {
  const name = readString(reader, `the name of tensor ${index}`, LIMITS.nameBytes);
  if (!/^[\x21-\x7e]+$/.test(name)) {
    reader.fail(`tensor ${index} is called ${JSON.stringify(name.slice(0, 80))}, only printable ASCII is allowed`);
  }
  const numDims = reader.u32(`the number of dimensions of ${name}`);
  if (numDims < 1 || numDims > LIMITS.numDims) reader.fail(`tensor ${name} has ${numDims} dimensions, allowed are 1 to ${LIMITS.numDims}`);
  const dims = Array.from({ length: numDims }, () => readDim(reader, name));
  const typeId = reader.u32(`the type of ${name}`);
  const type = GGML_TYPES.get(typeId) ?? reader.fail(`tensor ${name} has the unknown type ${typeId}`);
  if (dims[0]! % type.blockSize !== 0) {
    reader.fail(`rows of tensor ${name} have ${dims[0]} values, but ${type.name} needs a multiple of ${type.blockSize}`);
  }
  const byteLength = dims.slice(1).reduce((bytes, dim) => bytes * dim, dims[0]! / type.blockSize * type.blockBytes);
  if (byteLength > reader.fileBytes) {
    reader.fail(`tensor ${name} (${type.name}, ${dims.join(" × ")}) needs ${byteLength} bytes, but the file has ${reader.fileBytes}`);
  }
  // The file puts the dimension of neighbouring values first.
  return { name, type: type.name, shape: dims.reverse(), byteLength, dataOffset: reader.u64(`the offset of ${name}`) };
}

function readDim(reader: FileReader, name: string): number {
  const dim = reader.u64(`a dimension of ${name}`);
  if (dim < 1 || dim > LIMITS.dim) reader.fail(`tensor ${name} has a dimension of ${dim}, allowed are 1 to ${LIMITS.dim}`);
  return dim;
}

function placeTensors(reader: FileReader, metadata: GgufMetadata, tensors: readonly RawTensor[]): TensorEntry[] {
  const alignment = metadata.number("general.alignment") ?? DEFAULT_ALIGNMENT;
  if (!Number.isInteger(Math.log2(alignment)) || alignment < 1 || alignment > LIMITS.alignment) {
    reader.fail(`general.alignment is ${alignment}, allowed are powers of two up to ${LIMITS.alignment}`);
  }
  const dataStart = Math.ceil(reader.position / alignment) * alignment;
  const entries = tensors.map(({ dataOffset, ...tensor }): TensorEntry => {
    if (dataOffset % alignment !== 0) {
      reader.fail(`tensor ${tensor.name} has the offset ${dataOffset}, which is no multiple of ${alignment}`);
    }
    return { ...tensor, file: reader.path, offset: dataStart + dataOffset };
  });
  checkRegions(entries, reader.path, reader.fileBytes);
  return entries;
}
