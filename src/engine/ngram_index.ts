/** Lengths of suffix that are looked for, the longest first: a longer one agrees more often. */
const SUFFIX_LENGTHS = [4, 3, 2] as const;

/** A place where the text stood as it stands now. */
export interface NgramMatch {
  /** The token after it. */
  readonly at: number;
  /** Tokens that agree. */
  readonly size: number;
}

/** Where a sequence's n-grams ended last. Built token by token, a few map operations for each. */
export class NgramIndex {
  readonly #continuations = SUFFIX_LENGTHS.map(() => new Map<number, number>());
  /** N-grams that end before this place are known. */
  #numIndexed = 0;

  /**
   * Takes `tokens[0 … length)` in. The n-grams at the very end wait until something follows them: they would only find themselves.
   * Tokens that were taken in must not change.
   */
  extend(tokens: Int32Array, length: number): void {
    for (let end = Math.max(this.#numIndexed, 1); end < length; end++) {
      for (const [i, size] of SUFFIX_LENGTHS.entries()) {
        if (size <= end) this.#continuations[i]?.set(keyOf(tokens, end, size), end);
      }
    }
    this.#numIndexed = Math.max(this.#numIndexed, length);
  }

  /** The latest earlier occurrence of the longest suffix of `tokens[0 … length)`; null when there is none. */
  find(tokens: Int32Array, length: number): NgramMatch | null {
    for (const [i, size] of SUFFIX_LENGTHS.entries()) {
      if (size >= length) continue;
      const at = this.#continuations[i]?.get(keyOf(tokens, length, size)) ?? -1;
      // Keys are hashes: only the tokens tell.
      if (at >= 0 && isSame(tokens, at, length, size)) return { at, size };
    }
    return null;
  }
}

/**
 * `count` tokens that follow if the text goes on as it did at `at`. What reaches the end of the text goes on with itself: a text that repeats
 * is drafted as far as is wanted.
 */
export function continuation(tokens: Int32Array, length: number, at: number, count: number): Int32Array {
  const drafts = new Int32Array(count);
  for (let i = 0; i < count; i++) drafts[i] = (at + i < length ? tokens[at + i] : drafts[at + i - length]) ?? 0;
  return drafts;
}

/** Of the `size` tokens before `end`. A hash of 32 bits, which maps take without an object for each. */
function keyOf(tokens: Int32Array, end: number, size: number): number {
  let key = 0;
  for (let i = end - size; i < end; i++) {
    key = Math.imul(key ^ (tokens[i] ?? 0), 0x9e37_79b1);
    key ^= key >>> 15;
  }
  return key;
}

function isSame(tokens: Int32Array, end: number, otherEnd: number, size: number): boolean {
  for (let i = 1; i <= size; i++) {
    if (tokens[end - i] !== tokens[otherEnd - i]) return false;
  }
  return true;
}
