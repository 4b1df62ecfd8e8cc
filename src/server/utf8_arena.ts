const encoder = new TextEncoder();

const BLOCK_BYTES = 16_384;
/** Of UTF-8, for a UTF-16 unit, at most. */
const MAX_BYTES_PER_UNIT = 3;
let free = new Uint8Array(BLOCK_BYTES);

/** Text as bytes. Short texts share blocks: memory of its own for each piece of each stream costs more than the encoding. */
export function encodeUtf8(text: string): Uint8Array {
  const maxBytes = text.length * MAX_BYTES_PER_UNIT;
  if (maxBytes > BLOCK_BYTES / 4) return encoder.encode(text);
  if (maxBytes > free.length) free = new Uint8Array(BLOCK_BYTES);
  const { written } = encoder.encodeInto(text, free);
  const bytes = free.subarray(0, written);
  free = free.subarray(written);
  return bytes;
}
