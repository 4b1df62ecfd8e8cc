import { ModelFileError } from "./model_file_error.ts";

const CHUNK_BYTES = 1 << 18;
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * Reads little-endian values of a file from its start on, a chunk at a time. Every read is checked against the file's size before memory
 * is taken for it.
 */
export class FileReader implements Disposable {
  readonly path: string;
  readonly fileBytes: number;
  readonly #file: Deno.FsFile;
  #chunk = new Uint8Array(0);
  #view = new DataView(this.#chunk.buffer);
  /** Place in the chunk. */
  #index = 0;
  /** Place of the chunk's end in the file. */
  #end = 0;

  /** @throws {ModelFileError} when the file cannot be opened. */
  constructor(path: string) {
    this.path = path;
    try {
      this.#file = Deno.openSync(path);
    } catch (error) {
      throw new ModelFileError(`Cannot open ${path}: ${error instanceof Error ? error.message : error}`, { cause: error });
    }
    const info = this.#file.statSync();
    if (!info.isFile) {
      this.#file.close();
      throw new ModelFileError(`Cannot read ${path}: it is not a file`);
    }
    this.fileBytes = info.size;
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }

  /** Bytes from the start of the file. */
  get position(): number {
    return this.#end - this.#chunk.length + this.#index;
  }

  get remainingBytes(): number {
    return this.fileBytes - this.position;
  }

  fail(problem: string): never {
    throw new ModelFileError(`Cannot read ${this.path}: ${problem}`);
  }

  u8(what: string): number {
    return this.#read(1, what, (view, at) => view.getUint8(at));
  }

  i8(what: string): number {
    return this.#read(1, what, (view, at) => view.getInt8(at));
  }

  u16(what: string): number {
    return this.#read(2, what, (view, at) => view.getUint16(at, true));
  }

  i16(what: string): number {
    return this.#read(2, what, (view, at) => view.getInt16(at, true));
  }

  u32(what: string): number {
    return this.#read(4, what, (view, at) => view.getUint32(at, true));
  }

  i32(what: string): number {
    return this.#read(4, what, (view, at) => view.getInt32(at, true));
  }

  f32(what: string): number {
    return this.#read(4, what, (view, at) => view.getFloat32(at, true));
  }

  f64(what: string): number {
    return this.#read(8, what, (view, at) => view.getFloat64(at, true));
  }

  /** @throws {ModelFileError} for numbers above 2^53 - 1: nothing in a model file is that large. */
  u64(what: string): number {
    return this.#safe(this.#read(8, what, (view, at) => view.getBigUint64(at, true)), what);
  }

  i64(what: string): number {
    return this.#safe(this.#read(8, what, (view, at) => view.getBigInt64(at, true)), what);
  }

  /** Text of `byteLength` bytes; what is no UTF-8 becomes U+FFFD. */
  text(byteLength: number, what: string): string {
    if (byteLength > this.remainingBytes) this.#failShort(byteLength, what);
    if (byteLength <= CHUNK_BYTES) {
      const start = this.#take(byteLength, what);
      return utf8.decode(this.#chunk.subarray(start, start + byteLength));
    }
    const bytes = new Uint8Array(byteLength);
    for (let done = 0; done < byteLength;) {
      const count = Math.min(CHUNK_BYTES, byteLength - done);
      const start = this.#take(count, what);
      bytes.set(this.#chunk.subarray(start, start + count), done);
      done += count;
    }
    return utf8.decode(bytes);
  }

  #safe(value: bigint, what: string): number {
    if (value > Number.MAX_SAFE_INTEGER || value < Number.MIN_SAFE_INTEGER) this.fail(`${what} is ${value}, at most 2^53 - 1 is allowed`);
    return Number(value);
  }

  #read<T>(byteLength: number, what: string, get: (view: DataView, at: number) => T): T {
    const start = this.#take(byteLength, what);
    return get(this.#view, start);
  }

  /** Makes `byteLength` bytes available in the chunk; returns where they start. */
  #take(byteLength: number, what: string): number {
    if (byteLength > this.remainingBytes) this.#failShort(byteLength, what);
    if (this.#index + byteLength > this.#chunk.length) this.#refill(byteLength, what);
    const start = this.#index;
    this.#index += byteLength;
    return start;
  }

  #refill(byteLength: number, what: string): void {
    const kept = this.#chunk.subarray(this.#index);
    const wanted = Math.min(Math.max(CHUNK_BYTES, byteLength), this.remainingBytes);
    const chunk = new Uint8Array(wanted);
    chunk.set(kept);
    for (let filled = kept.length; filled < wanted;) {
      const count = this.#file.readSync(chunk.subarray(filled));
      if (count === null) this.fail(`the file ends at byte ${this.#end} while ${what} is read; it was cut while it was open`);
      filled += count;
      this.#end += count;
    }
    this.#chunk = chunk;
    this.#view = new DataView(chunk.buffer);
    this.#index = 0;
  }

  #failShort(byteLength: number, what: string): never {
    this.fail(`${what} needs ${byteLength} bytes at byte ${this.position}, but the file ends after ${this.remainingBytes} more`);
  }
}
