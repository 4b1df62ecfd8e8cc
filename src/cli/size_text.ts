/** Bytes for people: `98 MB`, `1.2 GB`. */
export function sizeText(numBytes: number): string {
  return numBytes < 1e9 ? `${Math.ceil(numBytes / 1e6)} MB` : `${(numBytes / 1e9).toFixed(1)} GB`;
}
