/** Bytes for people, wherever they are told: `98 MB`, `1.2 GB`; what is there has 1 MB at least. */
export function sizeText(numBytes: number): string {
  const numMegabytes = Math.round(numBytes / 1e6);
  return numMegabytes < 1000 ? `${numBytes > 0 ? Math.max(1, numMegabytes) : 0} MB` : `${(numBytes / 1e9).toFixed(1)} GB`;
}
