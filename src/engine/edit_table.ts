import { EDIT_WORDS, StructArray } from "../native/structs.ts";

const TOKEN = 0;
const BIAS = 1;
const REPETITION = 2;
const SUBTRACT = 3;

/**
 * Penalties are cut here: far beyond any logit, so the token cannot be drawn, and still small enough for float32 sums of squares over a whole
 * vocabulary (the deviation that top_n_sigma takes).
 */
const MAX_PENALTY = 1e9;

/** Changes of logits (`rl_edit` structs), at most one for each token, kept packed from step to step so that a step only copies them. */
export class EditTable {
  readonly structs = new StructArray(EDIT_WORDS);
  readonly #indexOf = new Map<number, number>();

  get numEdits(): number {
    return this.#indexOf.size;
  }

  /** Adds to the token's bias; -Infinity bans it. */
  addBias(token: number, bias: number): void {
    const at = this.#entry(token);
    this.#set(at + BIAS, this.#get(at + BIAS) + bias);
    this.#dropNeutral(token, at);
  }

  setRepetition(token: number, penalty: number): void {
    const at = this.#entry(token);
    this.#set(at + REPETITION, penalty);
    this.#dropNeutral(token, at);
  }

  setSubtract(token: number, penalty: number): void {
    const at = this.#entry(token);
    this.#set(at + SUBTRACT, clampPenalty(penalty));
    this.#dropNeutral(token, at);
  }

  /**
   * Copies this table and the step's own `extra` (biases and subtractions only) to `target` from struct `begin` on, still one edit for each
   * token. Returns the end of what was written.
   */
  writeTo(target: StructArray, begin: number, extra: EditTable): number {
    let end = begin + this.numEdits;
    target.copyFrom(this.structs, 0, this.numEdits, begin);
    for (const [token, index] of extra.#indexOf) {
      const own = this.#indexOf.get(token);
      if (own === undefined) target.copyFrom(extra.structs, index, 1, end++);
      else addTo(target.float32, (begin + own) * EDIT_WORDS, extra.structs.float32, index * EDIT_WORDS);
    }
    return end;
  }

  clear(): void {
    this.#indexOf.clear();
  }

  /** Word offset of the token's entry, made neutral when there was none. */
  #entry(token: number): number {
    const known = this.#indexOf.get(token);
    if (known !== undefined) return known * EDIT_WORDS;
    const index = this.#indexOf.size;
    this.structs.reserve(index + 1);
    this.#indexOf.set(token, index);
    const at = index * EDIT_WORDS;
    this.structs.int32[at + TOKEN] = token;
    this.#set(at + BIAS, 0);
    this.#set(at + REPETITION, 1);
    this.#set(at + SUBTRACT, 0);
    return at;
  }

  /** An entry that changes nothing goes; the last one takes its place. */
  #dropNeutral(token: number, at: number): void {
    if (this.#get(at + BIAS) !== 0 || this.#get(at + REPETITION) !== 1 || this.#get(at + SUBTRACT) !== 0) return;
    const index = at / EDIT_WORDS;
    const last = this.#indexOf.size - 1;
    if (index !== last) {
      this.structs.move(last, index);
      this.#indexOf.set(this.structs.int32[at + TOKEN] ?? 0, index);
    }
    this.#indexOf.delete(token);
  }

  #get(word: number): number {
    return this.structs.float32[word] ?? 0;
  }

  #set(word: number, value: number): void {
    this.structs.float32[word] = value;
  }
}

function addTo(target: Float32Array, at: number, source: Float32Array, from: number): void {
  target[at + BIAS] = (target[at + BIAS] ?? 0) + (source[from + BIAS] ?? 0);
  target[at + SUBTRACT] = clampPenalty((target[at + SUBTRACT] ?? 0) + (source[from + SUBTRACT] ?? 0));
}

function clampPenalty(penalty: number): number {
  return Math.max(-MAX_PENALTY, Math.min(penalty, MAX_PENALTY));
}
