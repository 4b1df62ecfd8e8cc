import { createHash } from "node:crypto";

/** Lower-case hexadecimal SHA-256 of a file, read in pieces. `onBytes` hears how many bytes are done. */
export async function fileSha256(path: string, onBytes: (done: number) => void = () => {}): Promise<string> {
  const hash = createHash("sha256");
  let done = 0;
  using file = await Deno.open(path, { read: true });
  const buffer = new Uint8Array(1 << 20);
  for (let count = await file.read(buffer); count !== null; count = await file.read(buffer)) {
    hash.update(buffer.subarray(0, count));
    onBytes(done += count);
  }
  return hash.digest("hex");
}
