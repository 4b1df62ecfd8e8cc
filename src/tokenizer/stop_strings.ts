/** Where a stop string was found. */
export interface StopMatch {
  readonly stop: string;
  /** Where it starts, in UTF-16 units from the start of the whole text. */
  readonly index: number;
}

export interface StopStep {
  /** Text that is now known to come before any stop string. */
  readonly text: string;
  /** Set once; from then on nothing more comes out. */
  readonly match: StopMatch | null;
}

export const MAX_STOP_STRINGS = 16;

/**
 * Finds the first stop string in a text that arrives in pieces of any size: the one that is complete first, the longest of those that are
 * complete at the same place. Holds back exactly the longest tail that may still become one.
 */
export class StopStrings {
  readonly #patterns: readonly Pattern[];
  /** Text that was pushed and not given out. */
  #held = "";
  #numGiven = 0;
  #match: StopMatch | null = null;

  /** @throws {RangeError} for an empty stop string, or for more than 16. */
  constructor(stops: readonly string[]) {
    if (stops.length > MAX_STOP_STRINGS) {
      throw new RangeError(`There are ${stops.length} stop strings, at most ${MAX_STOP_STRINGS} are allowed`);
    }
    if (stops.includes("")) throw new RangeError("A stop string is empty");
    this.#patterns = [...new Set(stops)].map((stop) => new Pattern(stop));
  }

  get match(): StopMatch | null {
    return this.#match;
  }

  push(piece: string): StopStep {
    if (this.#match !== null) return { text: "", match: this.#match };
    this.#held += piece;
    if (this.#patterns.length === 0) return this.#give(this.#held.length);
    let end = this.#held.length - piece.length;
    for (const character of piece) {
      end += character.length;
      const found = this.#advance(character.codePointAt(0)!);
      if (found !== null) return this.#stop(found, end);
    }
    return this.#give(this.#held.length - Math.max(...this.#patterns.map((pattern) => pattern.matchedLength)));
  }

  /** The text that was held back, when no more text comes. */
  flush(): string {
    return this.#match === null ? this.#give(this.#held.length).text : "";
  }

  /** The longest stop string that this code point completes. */
  #advance(codePoint: number): string | null {
    let found: string | null = null;
    for (const pattern of this.#patterns) {
      if (pattern.advance(codePoint) && pattern.stop.length > (found?.length ?? 0)) found = pattern.stop;
    }
    return found;
  }

  #stop(stop: string, end: number): StopStep {
    const start = end - stop.length;
    this.#match = { stop, index: this.#numGiven + start };
    return { ...this.#give(start), match: this.#match };
  }

  #give(length: number): StopStep {
    const text = this.#held.slice(0, length);
    this.#held = this.#match === null ? this.#held.slice(length) : "";
    this.#numGiven += length;
    return { text, match: null };
  }
}

/** Knuth-Morris-Pratt over code points, so that half of a surrogate pair never matches. */
class Pattern {
  readonly stop: string;
  readonly #codePoints: Uint32Array;
  /** UTF-16 units of the first n code points. */
  readonly #lengths: Uint32Array;
  /** After n matched code points: how many remain matched when the next one differs. */
  readonly #fallbacks: Uint32Array;
  #numMatched = 0;

  constructor(stop: string) {
    this.stop = stop;
    this.#codePoints = Uint32Array.from(stop, (character) => character.codePointAt(0)!);
    const length = this.#codePoints.length;
    this.#lengths = new Uint32Array(length + 1);
    this.#fallbacks = new Uint32Array(length + 1);
    for (let i = 0; i < length; i++) this.#lengths[i + 1] = this.#lengths[i]! + (this.#codePoints[i]! > 0xffff ? 2 : 1);
    for (let i = 1; i < length; i++) this.#fallbacks[i + 1] = this.#next(this.#fallbacks[i]!, this.#codePoints[i]!);
  }

  /** UTF-16 units of the text's tail that begin this pattern. */
  get matchedLength(): number {
    return this.#lengths[this.#numMatched]!;
  }

  /** Whether the pattern is complete with this code point. */
  advance(codePoint: number): boolean {
    this.#numMatched = this.#next(this.#numMatched, codePoint);
    return this.#numMatched === this.#codePoints.length;
  }

  #next(numMatched: number, codePoint: number): number {
    let n = numMatched;
    while (n > 0 && this.#codePoints[n] !== codePoint) n = this.#fallbacks[n]!;
    return this.#codePoints[n] === codePoint ? n + 1 : n;
  }
}
