/** Weights of GGUF files as float32, in plain TypeScript: slow, but run once for a model, and shared with nothing that is measured. */

type BlockReader = (view: DataView<ArrayBuffer>, at: number, values: Float32Array<ArrayBuffer>, to: number) => void;

interface BlockFormat {
  readonly numValues: number;
  readonly numBytes: number;
  readonly read: BlockReader;
}

const BLOCK = 32;

/** Two values to a byte: the low halves are the block's first 16 values, the high halves the others. */
function readHalves(scale: number, offset: number, dataAt: number): BlockReader {
  return (view, at, values, to) => {
    for (let i = 0; i < BLOCK / 2; i++) {
      const byte = view.getUint8(at + dataAt + i);
      values[to + i] = scale * (byte & 15) + offset;
      values[to + BLOCK / 2 + i] = scale * (byte >> 4) + offset;
    }
  };
}

const FORMATS: ReadonlyMap<string, BlockFormat> = new Map<string, BlockFormat>([
  ["F32", { numValues: 1, numBytes: 4, read: (view, at, values, to) => void (values[to] = view.getFloat32(at, true)) }],
  ["F16", { numValues: 1, numBytes: 2, read: (view, at, values, to) => void (values[to] = view.getFloat16(at, true)) }],
  ["Q4_0", {
    numValues: BLOCK,
    numBytes: 18,
    read: (view, at, values, to): void => {
      const scale = view.getFloat16(at, true);
      readHalves(scale, -8 * scale, 2)(view, at, values, to);
    },
  }],
  ["Q4_1", {
    numValues: BLOCK,
    numBytes: 20,
    read: (view, at, values, to): void =>
      readHalves(view.getFloat16(at, true), view.getFloat16(at + 2, true), 4)(
        view,
        at,
        values,
        to,
      ),
  }],
  ["Q8_0", {
    numValues: BLOCK,
    numBytes: 34,
    read: (view, at, values, to): void => {
      const scale = view.getFloat16(at, true);
      for (let i = 0; i < BLOCK; i++) values[to + i] = scale * view.getInt8(at + 2 + i);
    },
  }],
]);

/**
 * @param data whole blocks of `type`, one after another.
 * @throws {RangeError} for a type that is not read here, and for data that ends within a block.
 */
export function dequantize(type: string, data: Uint8Array<ArrayBuffer>): Float32Array<ArrayBuffer> {
  const format = FORMATS.get(type);
  if (format === undefined) throw new RangeError(`Cannot read weights of type ${type}; known are ${[...FORMATS.keys()].join(", ")}`);
  const numBlocks = data.length / format.numBytes;
  if (!Number.isInteger(numBlocks)) {
    throw new RangeError(`${data.length} bytes of ${type} are no whole number of ${format.numBytes}-byte blocks`);
  }
  const values = new Float32Array(numBlocks * format.numValues);
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  for (let block = 0; block < numBlocks; block++) format.read(view, block * format.numBytes, values, block * format.numValues);
  return values;
}

/**
 * Rows of q and k as Hugging Face's files have them. GGUF files of the llama family keep the two halves of a head's rotary pairs side by side
 * (0, 32, 1, 33, …); here the first halves come first.
 *
 * @param values [numHeads × headDim, width], row-major.
 */
export function separateRotaryHalves(values: Float32Array<ArrayBuffer>, numHeads: number, width: number): Float32Array<ArrayBuffer> {
  const headDim = values.length / width / numHeads;
  const half = headDim / 2;
  if (!Number.isInteger(half)) {
    throw new RangeError(`${values.length} values are no ${numHeads} heads of an even number of rows of ${width}`);
  }
  const separated = new Float32Array(values.length);
  for (let head = 0; head < numHeads; head++) {
    for (let row = 0; row < headDim; row++) {
      const from = (head * headDim + row) * width;
      const to = (head * headDim + (row % 2) * half + (row >> 1)) * width;
      separated.set(values.subarray(from, from + width), to);
    }
  }
  return separated;
}
