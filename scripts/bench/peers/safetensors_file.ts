/** Writes float32 tensors as a safetensors file, one at a time: the whole of it need not be in memory. */

export interface FloatTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly read: () => Float32Array<ArrayBuffer>;
}

const LENGTH_BYTES = 8;
const ALIGNMENT = 8;

/** @throws {RangeError} when a tensor's values are not as many as its shape tells. */
export function writeSafetensors(path: string, tensors: readonly FloatTensor[]): void {
  using file = Deno.openSync(path, { write: true, create: true, truncate: true });
  writeAll(file, headerOf(tensors));
  for (const { name, shape, read } of tensors) {
    const values = read();
    if (values.length !== numValuesOf(shape)) {
      throw new RangeError(`Tensor ${name} has ${values.length} values, its shape ${shape.join(" × ")} needs ${numValuesOf(shape)}`);
    }
    writeAll(file, new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
  }
}

function headerOf(tensors: readonly FloatTensor[]): Uint8Array {
  const header: Record<string, unknown> = { __metadata__: { format: "pt" } };
  let offset = 0;
  for (const { name, shape } of tensors) {
    const end = offset + 4 * numValuesOf(shape);
    header[name] = { dtype: "F32", shape, data_offsets: [offset, end] };
    offset = end;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const numBytes = Math.ceil(text.length / ALIGNMENT) * ALIGNMENT;
  const bytes = new Uint8Array(LENGTH_BYTES + numBytes).fill(" ".charCodeAt(0));
  new DataView(bytes.buffer).setBigUint64(0, BigInt(numBytes), true);
  bytes.set(text, LENGTH_BYTES);
  return bytes;
}

function numValuesOf(shape: readonly number[]): number {
  return shape.reduce((product, dim) => product * dim, 1);
}

function writeAll(file: Deno.FsFile, bytes: Uint8Array): void {
  for (let written = 0; written < bytes.length;) written += file.writeSync(bytes.subarray(written));
}
