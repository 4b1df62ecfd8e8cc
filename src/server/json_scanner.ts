import { ApiError } from "./errors.ts";
import { MAX_SEED_CHARS } from "./exact_seed.ts";

/** Named values in a body: as many as a bias for every token of a vocabulary needs, and few enough to be parsed at once. */
const MAX_KEYS = 1 << 16;
/** Names of fields are shorter. */
const MAX_FIELD_CHARS = 64;
/** Items of all lists of a body together. */
const MAX_ITEMS = 1 << 19;

/**
 * Looks at JSON text while it arrives, without parsing it. What it lets through is parsed in tens of milliseconds; a body of a few megabytes can be made
 * so that parsing it takes many seconds, in which no stream would get a token.
 */
export class JsonScanner {
  readonly #maxDepth: number;
  #depth = 0;
  #numKeys = 0;
  #numItems = 0;
  #isInString = false;
  #isEscaped = false;
  /** The beginning of the newest text of the outermost object: a key, or a value. */
  #text = "";
  /** The field of the body that is being read. */
  #field: string | null = null;
  /** The value of the field `seed`, as far as it is no text and no list; of several the last one, which is JSON.parse's too. */
  #seed = "";
  #isInSeed = false;

  /** @param maxDepth arrays and objects inside one another: a value that is too deep would break every recursive reader. */
  constructor(maxDepth: number) {
    this.#maxDepth = maxDepth;
  }

  /** The number that the body has as its `seed`, as it is written there. One of more than `MAX_SEED_CHARS` characters lacks its end. */
  get seedLiteral(): string {
    return this.#seed;
  }

  /** @throws {ApiError} 400 as soon as there is too much of anything. */
  push(text: string): void {
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (this.#isInString) this.#stepInString(code);
      else this.#step(code);
    }
    if (this.#numKeys > MAX_KEYS) this.#refuse(`hold ${MAX_KEYS} named values`);
    if (this.#numItems > MAX_ITEMS) this.#refuse(`hold ${MAX_ITEMS} items`);
  }

  #stepInString(code: number): void {
    if (!this.#isEscaped && code === 0x22) this.#isInString = false;
    else if (this.#depth === 1 && this.#text.length < MAX_FIELD_CHARS) this.#text += String.fromCharCode(code);
    this.#isEscaped = !this.#isEscaped && code === 0x5c;
  }

  #step(code: number): void {
    if (code === 0x22) {
      this.#isInString = true;
      this.#text = "";
    } else if (code === 0x2c) {
      this.#numItems++;
      if (this.#depth === 1) this.#isInSeed = false;
    } else if (code === 0x3a) {
      this.#numKeys++;
      if (this.#depth === 1) this.#startField();
    } else if (code === 0x5d || code === 0x7d) {
      this.#depth--;
    } else if ((code === 0x5b || code === 0x7b) && ++this.#depth > this.#maxDepth) {
      this.#refuse(`nest ${this.#maxDepth} arrays and objects`);
    } else if (this.#isInSeed && code > 0x20 && this.#seed.length <= MAX_SEED_CHARS) {
      this.#seed += String.fromCharCode(code);
    }
  }

  #startField(): void {
    this.#field = unescaped(this.#text);
    this.#isInSeed = this.#field === "seed";
    if (this.#isInSeed) this.#seed = "";
  }

  #refuse(limit: string): never {
    const place = this.#field === null ? "" : `, in ${JSON.stringify(this.#field)}`;
    throw new ApiError(400, `The request body may ${limit}; found more${place}`, { code: "invalid_json", param: this.#field });
  }
}

/** A key may be spelled with escapes. One that is cut off, or no JSON, stays as it is. */
function unescaped(text: string): string {
  if (!text.includes("\\")) return text;
  try {
    return JSON.parse(`"${text}"`) as string;
  } catch {
    return text;
  }
}
