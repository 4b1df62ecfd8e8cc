import type { SpecialToken } from "./tokenizer.ts";
import { SpecialTokenSplitter } from "./special_tokens.ts";

/** Private-use code points of planes 15 and 16: no text needs them, and templates pass them through. */
const FIRST_MARK = 0xf0000;
const LAST_MARK = 0x10fffd;

/** What has to be known about a tokenizer's special tokens, made once for each of them. */
interface TokenLookup {
  readonly splitter: SpecialTokenSplitter;
  readonly indexOf: ReadonlyMap<string, number>;
  /** Proper beginnings, and proper ends, of special tokens. */
  readonly heads: ReadonlySet<string>;
  readonly tails: ReadonlySet<string>;
  readonly maxLength: number;
}

const lookups = new WeakMap<readonly SpecialToken[], TokenLookup>();

function lookupOf(tokens: readonly SpecialToken[]): TokenLookup {
  const known = lookups.get(tokens);
  if (known !== undefined) return known;
  const parts = (cut: (content: string, length: number) => string): Set<string> =>
    new Set(tokens.flatMap(({ content }) => Array.from({ length: content.length - 1 }, (_, i) => cut(content, i + 1))));
  const lookup: TokenLookup = {
    splitter: new SpecialTokenSplitter(tokens.map((token) => ({ ...token, stripsLeft: false, stripsRight: false }))),
    indexOf: new Map(tokens.map((token, i) => [token.content, i])),
    heads: parts((content, length) => content.slice(0, length)),
    tails: parts((content, length) => content.slice(-length)),
    maxLength: Math.max(0, ...tokens.map((token) => token.content.length)),
  };
  lookups.set(tokens, lookup);
  return lookup;
}

/**
 * Keeps special-token text in user data apart from the special tokens that a template writes. `protect` replaces it by markers before
 * rendering, `restore` puts it back afterwards. A marker is a number between two marks; the mark is a private-use character that occurs nowhere
 * in the data.
 */
export class ProtectedText {
  readonly #tokens: readonly SpecialToken[];
  readonly #lookup: TokenLookup;
  readonly #mark: string;
  readonly #markers: RegExp;

  /** `data` is everything that will be protected. */
  constructor(tokens: readonly SpecialToken[], data: unknown) {
    this.#tokens = tokens;
    this.#lookup = lookupOf(tokens);
    this.#mark = unusedMark(JSON.stringify(data) ?? "");
    this.#markers = new RegExp(`${this.#mark}(\\d*)${this.#mark}`, "gu");
  }

  /** A place in a text that survives rendering and is found again with `indexOf`. */
  get sentinel(): string {
    return `${this.#mark}${this.#tokens.length}${this.#mark}`;
  }

  /** A copy of `value` with every string in it protected, keys of objects included. */
  protect(value: unknown): unknown {
    if (typeof value === "string") return this.#protectString(value);
    if (Array.isArray(value)) return value.map((item) => this.protect(item));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [this.#protectString(key), this.protect(item)]));
  }

  restore(text: string): string {
    return text.replace(this.#markers, (_, index: string) => index === "" ? "" : this.#tokens[Number(index)]?.content ?? "");
  }

  #protectString(text: string): string {
    const { splitter, indexOf } = this.#lookup;
    const parts = splitter.split(text);
    const marked = parts.map((part) => "text" in part ? part.text : `${this.#mark}${indexOf.get(part.special.content)}${this.#mark}`);
    const edge = this.#mark + this.#mark;
    return (this.#canEndToken(text) ? edge : "") + marked.join("") + (this.#canBeginToken(text) ? edge : "");
  }

  /** Whether the text's tail begins a special token that the template's next characters could complete. */
  #canBeginToken(text: string): boolean {
    const { heads, maxLength } = this.#lookup;
    for (let length = 1; length < maxLength && length <= text.length; length++) if (heads.has(text.slice(-length))) return true;
    return false;
  }

  /** Whether the text's head ends a special token that the template's characters before it could begin. */
  #canEndToken(text: string): boolean {
    const { tails, maxLength } = this.#lookup;
    for (let length = 1; length < maxLength && length <= text.length; length++) if (tails.has(text.slice(0, length))) return true;
    return false;
  }
}

function unusedMark(data: string): string {
  for (let codePoint = FIRST_MARK; codePoint <= LAST_MARK; codePoint++) {
    const mark = String.fromCodePoint(codePoint);
    // The last two of each plane are no characters.
    if ((codePoint & 0xffff) < 0xfffe && !data.includes(mark)) return mark;
  }
  throw new RangeError("The messages use every private-use character, so none is left to protect special-token text");
}
