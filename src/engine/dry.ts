/**
 * DRY: a token that would continue a repetition of earlier text is penalized, exponentially in the length of what is repeated. Semantics of
 * llama.cpp: prompt and generated tokens count, a repetition does not reach back over a sequence breaker, and of all earlier occurrences that
 * a token would continue the longest one decides.
 */
import type { SamplingConfig } from "./sampling.ts";

/** ln of the largest float32: the exponent stops where the power would overflow. */
const FLOAT32_MAX_LOG = 88.7228391;

export class Dry {
  #matchLengths = new Int32Array(0);
  readonly #longest = new Map<number, number>();
  readonly #breakersByHead: ReadonlyMap<number, readonly (readonly number[])[]>;

  constructor(readonly config: SamplingConfig) {
    const byHead = new Map<number, (readonly number[])[]>();
    for (const breaker of config.drySequenceBreakers) {
      const head = breaker[0];
      if (head !== undefined) byHead.set(head, [...(byHead.get(head) ?? []), breaker]);
    }
    this.#breakersByHead = byHead;
  }

  static isActive(config: SamplingConfig): boolean {
    return config.dryMultiplier !== 0 && config.dryBase >= 1 && config.dryPenaltyLastN !== 0;
  }

  /** Calls `penalize` once for each token that would continue a repetition in `tokens[0 … length)`. */
  visit(tokens: Int32Array, length: number, penalize: (token: number, penalty: number) => void): void {
    const { dryMultiplier, dryBase, dryAllowedLength, dryPenaltyLastN } = this.config;
    const windowLength = dryPenaltyLastN < 0 ? length : Math.min(length, dryPenaltyLastN);
    if (windowLength <= dryAllowedLength) return;
    const window = tokens.subarray(length - windowLength, length);
    const maxRepeat = this.#lengthAfterLastBreaker(window);
    if (maxRepeat < dryAllowedLength) return;
    this.#findLongest(window, maxRepeat);
    const maxExponent = dryBase > 1.000001 ? FLOAT32_MAX_LOG / Math.log(dryBase) : Infinity;
    for (const [token, repeat] of this.#longest) {
      penalize(token, dryMultiplier * Math.pow(dryBase, Math.min(repeat - dryAllowedLength, maxExponent)));
    }
  }

  /** Tokens after the last sequence breaker of the window; of breakers that begin at the same token the longest counts. */
  #lengthAfterLastBreaker(window: Int32Array): number {
    if (this.#breakersByHead.size === 0) return window.length;
    for (let begin = window.length - 1; begin >= 0; begin--) {
      let longest = 0;
      for (const breaker of this.#breakersByHead.get(window[begin] ?? -1) ?? []) {
        const isHere = begin + breaker.length <= window.length && breaker.every((token, i) => window[begin + i] === token);
        if (isHere) longest = Math.max(longest, breaker.length);
      }
      if (longest > 0) return window.length - begin - longest;
    }
    return window.length;
  }

  /** Fills `#longest`: next token → the longest suffix of the window that an earlier place, followed by that token, repeats. */
  #findLongest(window: Int32Array, maxRepeat: number): void {
    const last = window.length - 1;
    const lengths = this.#suffixMatches(window);
    this.#longest.clear();
    for (let end = 0; end < last; end++) {
      const repeat = Math.min(lengths[last - end] ?? 0, maxRepeat);
      if (repeat < this.config.dryAllowedLength) continue;
      const next = window[end + 1] ?? 0;
      if (repeat > (this.#longest.get(next) ?? -1)) this.#longest.set(next, repeat);
    }
  }

  /**
   * The Z-function of the reversed window: entry k is how many tokens that end k places before the end equal the window's own last tokens.
   * One pass, so a window of the whole context costs microseconds.
   */
  #suffixMatches(window: Int32Array): Int32Array {
    const length = window.length;
    const last = length - 1;
    if (this.#matchLengths.length < length) this.#matchLengths = new Int32Array(2 * length);
    const matches = this.#matchLengths;
    // [left, right) is the known match that reaches furthest back.
    let left = 0;
    let right = 0;
    for (let k = 1; k < length; k++) {
      let n = k < right ? Math.min(right - k, matches[k - left] ?? 0) : 0;
      while (k + n < length && window[last - n] === window[last - k - n]) n++;
      matches[k] = n;
      if (k + n > right) {
        left = k;
        right = k + n;
      }
    }
    return matches;
  }
}
