import type { Tokenizer } from "./tokenizer.ts";

export interface DetokenizerOptions {
  /** The text goes on after other text: a leading space is kept where the tokenizer would strip it. */
  readonly isContinuation?: boolean;
}

/**
 * Tokens to text, piece by piece. What `push` returns never changes any more: the bytes of an incomplete code point wait for the next token.
 * All pieces together are `tokenizer.decode` of all ids.
 */
export class Detokenizer {
  readonly #tokenizer: Tokenizer;
  readonly #texts: TokenTexts;
  readonly #utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  #stripsNextSpace: boolean;
  /** The decoder may hold the beginning of a code point. */
  #mayHoldBytes = false;

  constructor(tokenizer: Tokenizer, options: DetokenizerOptions = {}) {
    this.#tokenizer = tokenizer;
    this.#texts = textsOf(tokenizer);
    this.#stripsNextSpace = tokenizer.stripsLeadingSpace && !options.isContinuation;
  }

  /** Text that became final with this token; special tokens have none. */
  push(id: number): string {
    const text = this.#texts[id] ?? this.#lookUp(id);
    return this.#strip(this.#mayHoldBytes || text === PART ? this.#decode(id, text) : text);
  }

  /** The rest: U+FFFD where the last code point was not finished. */
  flush(): string {
    return this.#strip(this.#utf8.decode());
  }

  #lookUp(id: number): string {
    return this.#texts[id] = wholeText(this.#tokenizer.tokenBytes(id));
  }

  /** Whatever came before, nothing is held after a token of whole characters. */
  #decode(id: number, text: string): string {
    if (text !== "") this.#mayHoldBytes = text === PART;
    return this.#utf8.decode(this.#tokenizer.tokenBytes(id), { stream: true });
  }

  #strip(text: string): string {
    if (!this.#stripsNextSpace || text === "") return text;
    this.#stripsNextSpace = false;
    return text.startsWith(" ") ? text.slice(1) : text;
  }
}

/** The text of each token that was asked for; `PART` of tokens that are not made of whole characters. */
type TokenTexts = (string | undefined)[];

/** No token has it: half of a surrogate pair. */
const PART = "\ud800";

/** Nearly all tokens are whole characters, which need no decoder: calling it takes longer than all else that is done for a token. */
const textsByTokenizer = new WeakMap<Tokenizer, TokenTexts>();

function textsOf(tokenizer: Tokenizer): TokenTexts {
  let texts = textsByTokenizer.get(tokenizer);
  if (texts === undefined) textsByTokenizer.set(tokenizer, texts = new Array<string | undefined>(tokenizer.vocabSize));
  return texts;
}

const strictUtf8 = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

function wholeText(bytes: Uint8Array): string {
  if (bytes.every((byte) => byte < 0x80)) return String.fromCharCode(...bytes);
  try {
    return strictUtf8.decode(bytes);
  } catch {
    return PART;
  }
}
