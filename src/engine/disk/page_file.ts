/**
 * A page as a file: a header of 160 bytes, then the bytes of the page. The last 32 bytes of the header are the SHA-256 of all else, so that a
 * file that is cut, changed or another one's is known to be that.
 *
 *   0 "RLPG"   4 format   8 flags   12 tokens   16 bytes of the model   24 bytes of the drafter   32 model   64 key   96 zeros   128 SHA-256
 *
 * Numbers are little-endian; model and key are the SHA-256 that they are elsewhere written as hexadecimal.
 */
import { createHash } from "node:crypto";
import type { PageImage, PageParts } from "../backend.ts";

/** Raised when files of before cannot be read any more. */
export const FORMAT = 1;

const HEADER_BYTES = 160;
const CHECKSUM_AT = 128;
const MAGIC = 0x47504c52;
const HAS_STATE = 1;
const HAS_HISTORY = 2;
const FILE_MODE = 0o600;

/** What a page is named by. */
export interface PageName {
  /** What `modelIdentity` gives. */
  readonly model: string;
  readonly key: string;
}

/** A file that is not the page that its name says. */
export class DamagedPageError extends Error {
  override name = "DamagedPageError";
}

/** Bytes of the file that the page becomes. */
export function pageFileBytes(image: PageImage): number {
  return HEADER_BYTES + image.bytes.length;
}

/** Writes a page to `path`, which must not exist. */
export async function writePage(path: string, name: PageName, image: PageImage): Promise<void> {
  const header = new Uint8Array(HEADER_BYTES);
  const view = new DataView(header.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint32(4, FORMAT, true);
  view.setUint32(8, (image.hasState ? HAS_STATE : 0) | (image.hasHistory ? HAS_HISTORY : 0), true);
  view.setUint32(12, image.numTokens, true);
  view.setBigUint64(16, BigInt(image.numModelBytes), true);
  view.setBigUint64(24, BigInt(image.bytes.length - image.numModelBytes), true);
  header.set(bytesOf(name.model), 32);
  header.set(bytesOf(name.key), 64);
  header.set(checksum(header, image.bytes), CHECKSUM_AT);
  using file = await Deno.open(path, { write: true, createNew: true, mode: FILE_MODE });
  await writeAll(file, header);
  await writeAll(file, image.bytes);
}

/**
 * Reads the page that `name` stands for.
 * @throws {DamagedPageError} when the file holds anything else; errors of the file system as they are.
 */
export async function readPage(path: string, name: PageName): Promise<PageImage> {
  using file = await Deno.open(path, { read: true });
  const { size } = await file.stat();
  const header = await readExactly(file, HEADER_BYTES);
  const { hasState, hasHistory, numTokens, numModelBytes, numBytes } = parseHeader(header, name);
  if (size !== HEADER_BYTES + numBytes) throw new DamagedPageError(`${path} has ${size} bytes, expected ${HEADER_BYTES + numBytes}`);
  const bytes = await readExactly(file, numBytes);
  const found = header.subarray(CHECKSUM_AT);
  if (!checksum(header, bytes).every((byte, i) => byte === found[i])) throw new DamagedPageError(`${path} has another checksum`);
  return { hasState, hasHistory, numTokens, bytes, numModelBytes };
}

/** What the page in the file holds, as its header says, unchecked. @throws {DamagedPageError} and errors of the file system. */
export async function readParts(path: string, name: PageName): Promise<PageParts> {
  using file = await Deno.open(path, { read: true });
  return parseHeader(await readExactly(file, HEADER_BYTES), name);
}

function parseHeader(header: Uint8Array<ArrayBuffer>, name: PageName): Omit<PageImage, "bytes"> & { readonly numBytes: number } {
  const view = new DataView(header.buffer);
  const isOurs = view.getUint32(0, true) === MAGIC && view.getUint32(4, true) === FORMAT &&
    bytesOf(name.model + name.key).every((byte, i) => byte === header[32 + i]);
  if (!isOurs) throw new DamagedPageError("The file is another one's");
  const flags = view.getUint32(8, true);
  const [numModelBytes, numHistoryBytes] = [Number(view.getBigUint64(16, true)), Number(view.getBigUint64(24, true))];
  return {
    hasState: (flags & HAS_STATE) !== 0,
    hasHistory: (flags & HAS_HISTORY) !== 0,
    numTokens: view.getUint32(12, true),
    numModelBytes,
    numBytes: numModelBytes + numHistoryBytes,
  };
}

function checksum(header: Uint8Array, bytes: Uint8Array): Uint8Array {
  return createHash("sha256").update(header.subarray(0, CHECKSUM_AT)).update(bytes).digest();
}

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from({ length: hex.length / 2 }, (_, i) => parseInt(hex.slice(2 * i, 2 * i + 2), 16));
}

async function readExactly(file: Deno.FsFile, numBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(numBytes);
  for (let at = 0; at < numBytes;) {
    const count = await file.read(bytes.subarray(at));
    if (count === null) throw new DamagedPageError(`The file ends after ${at} of ${numBytes} bytes`);
    at += count;
  }
  return bytes;
}

async function writeAll(file: Deno.FsFile, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
}
