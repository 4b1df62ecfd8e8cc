/** DRY's sequence breakers: texts, as the token sequences that can spell them. */
import type { Tokenizer } from "../tokenizer/tokenizer.ts";

/** Longest tail of a breaker, in tokens, after the token in which it begins. */
const MAX_TAIL_TOKENS = 20;
/** Breakers whose sequences are remembered. Clients send the same few. */
const MAX_REMEMBERED = 64;

/** What llama.cpp breaks repetitions at when a request says nothing. */
export const DEFAULT_BREAKERS: readonly string[] = ["\n", ":", '"', "*"];

/**
 * Finds the token sequences of a breaker. A text begins anywhere inside a token ("):" holds ":"), so the vocabulary is searched: a token that holds the
 * whole breaker is one sequence, a token that ends with its beginning is the head of a sequence that goes on with the tokens of the rest.
 */
export class SequenceBreakers {
  readonly #tokenizer: Tokenizer;
  readonly #sequences = new Map<string, readonly (readonly number[])[]>();
  #vocabulary: readonly string[] | null = null;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  /** The sequences of all `breakers`. */
  encode(breakers: readonly string[]): readonly (readonly number[])[] {
    return breakers.flatMap((breaker) => {
      const known = this.#sequences.get(breaker);
      if (known !== undefined) return known;
      const found = this.#search(breaker);
      if (this.#sequences.size >= MAX_REMEMBERED) this.#sequences.delete(this.#sequences.keys().next().value!);
      this.#sequences.set(breaker, found);
      return found;
    });
  }

  #search(breaker: string): readonly (readonly number[])[] {
    const wanted = toBinary(new TextEncoder().encode(breaker));
    const found: number[][] = [];
    const tails = new Map<number, readonly number[]>();
    this.#texts().forEach((text, id) => {
      if (text.includes(wanted)) found.push([id]);
      else {
        for (let length = Math.min(text.length, wanted.length - 1); length > 0; length--) {
          if (!text.endsWith(wanted.slice(0, length))) continue;
          const tail = tails.get(length) ?? this.#tail(wanted.slice(length));
          tails.set(length, tail);
          if (tail.length > 0) found.push([id, ...tail]);
        }
      }
    });
    return found;
  }

  /** Tokens of the rest of a breaker; empty when the cut is inside a character, where no token of text can go on. */
  #tail(rest: string): readonly number[] {
    const bytes = Uint8Array.from(rest, (char) => char.charCodeAt(0));
    const text = new TextDecoder().decode(bytes);
    return text.includes("\ufffd") ? [] : this.#tokenizer.encode(text).slice(0, MAX_TAIL_TOKENS);
  }

  /** Every token's bytes as a string of code units below 256: strings have fast searches, byte arrays have none. */
  #texts(): readonly string[] {
    this.#vocabulary ??= Array.from({ length: this.#tokenizer.vocabSize }, (_, id) => toBinary(this.#tokenizer.tokenBytes(id)));
    return this.#vocabulary;
  }
}

function toBinary(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}
