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
  readonly #utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  #stripsNextSpace: boolean;
  /** The decoder may hold the beginning of a code point. */
  #mayHoldBytes = false;

  constructor(tokenizer: Tokenizer, options: DetokenizerOptions = {}) {
    this.#tokenizer = tokenizer;
    this.#stripsNextSpace = tokenizer.stripsLeadingSpace && !options.isContinuation;
  }

  /** Text that became final with these tokens; special tokens have none. */
  push(ids: readonly number[]): string {
    let text = "";
    for (const id of ids) text += this.#decode(this.#tokenizer.tokenBytes(id));
    return this.#strip(text);
  }

  /** The rest: U+FFFD where the last code point was not finished. */
  flush(): string {
    return this.#strip(this.#utf8.decode());
  }

  /** Most tokens are a few ASCII characters, which need no decoder; calling it takes longer than all else that is done for a token. */
  #decode(bytes: Uint8Array): string {
    const ascii = this.#mayHoldBytes ? null : asciiText(bytes);
    if (ascii !== null) return ascii;
    this.#mayHoldBytes = true;
    return this.#utf8.decode(bytes, { stream: true });
  }

  #strip(text: string): string {
    if (!this.#stripsNextSpace || text === "") return text;
    this.#stripsNextSpace = false;
    return text.startsWith(" ") ? text.slice(1) : text;
  }
}

/** null when there is anything else. */
function asciiText(bytes: Uint8Array): string | null {
  let text = "";
  for (const byte of bytes) {
    if (byte >= 0x80) return null;
    text += String.fromCharCode(byte);
  }
  return text;
}
