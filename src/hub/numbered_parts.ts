const PART = /^(.*-)(\d{5})-of-(\d{5})(\.\w+)$/;
const MAX_PARTS = 10_000;

/** All parts of a model, in order, when `path` is one of them: `a-00001-of-00002.gguf` tells that there is a second one. Else `path` alone. */
export function numberedParts(path: string): string[] {
  const [, start, , count, end] = PART.exec(path) ?? [];
  const numParts = Number(count ?? 0);
  if (numParts < 1 || numParts > MAX_PARTS) return [path];
  return Array.from({ length: numParts }, (_, i) => `${start}${String(i + 1).padStart(5, "0")}-of-${count}${end}`);
}
