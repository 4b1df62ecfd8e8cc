/** From the tokens of one sequence to the text, logprobs and ids that its client gets: stop strings cut all three at the same place. */
import type { FinishReason, RowUpdate, TokenLogprob } from "../engine/messages.ts";
import { Detokenizer } from "../tokenizer/detokenizer.ts";
import { StopStrings } from "../tokenizer/stop_strings.ts";
import type { Tokenizer } from "../tokenizer/tokenizer.ts";

/** One token of the answer, with what is reported about it. */
export interface AnswerToken {
  readonly id: number;
  /** Where its text starts, in UTF-16 units of the answer. */
  readonly start: number;
  /** null when no logprobs were asked for. */
  readonly logprob: TokenLogprob | null;
}

/** What updates have added to the answer. Concatenated, the deltas of a sequence are its answer. */
export interface ChoiceDelta {
  text: string;
  /** Tokens whose text is settled: no stop string can take them back. */
  readonly tokens: AnswerToken[];
  /** The token that ended the sequence: it has no text and is not part of `tokens`. */
  stopToken: number | null;
  finishReason: "stop" | "length" | null;
}

export interface ChoiceTextOptions {
  readonly stop: readonly string[];
  /** The answer goes on after text of the prompt, so a leading space is part of it. */
  readonly isContinuation: boolean;
}

/** A token whose text may still be taken back. `end` is null while its bytes are half a character. */
interface HeldToken {
  readonly token: AnswerToken;
  end: number | null;
}

export class ChoiceText {
  readonly #tokenizer: Tokenizer | null;
  readonly #detokenizer: Detokenizer | null;
  /** null: there are none. */
  readonly #stopStrings: StopStrings | null;
  readonly #held: HeldToken[] = [];
  #numDecoded = 0;
  #numReleased = 0;
  #numTokens = 0;

  /** @param tokenizer null: there is no text, and tokens are settled at once. */
  constructor(tokenizer: Tokenizer | null, options: ChoiceTextOptions) {
    this.#tokenizer = tokenizer;
    this.#detokenizer = tokenizer === null ? null : new Detokenizer(tokenizer, { isContinuation: options.isContinuation });
    this.#stopStrings = options.stop.length === 0 ? null : new StopStrings(options.stop);
  }

  /** Tokens that were generated for this answer, the one that ended it included. */
  get numTokens(): number {
    return this.#numTokens;
  }

  /** Adds the tokens of `update` to `delta`; those after a stop string are not looked at. */
  push({ tokens, logprobs, finishReason }: RowUpdate, delta: ChoiceDelta): void {
    const hasStopToken = finishReason === "stop";
    const numTextTokens = tokens.length - (hasStopToken ? 1 : 0);
    for (let i = 0; i < numTextTokens; i++) {
      this.#numTokens++;
      if (this.#pushToken(tokens[i]!, logprobs[i] ?? null, delta)) return this.#endAtStop(delta);
    }
    if (finishReason === null) return this.#settle(delta);
    if (hasStopToken) this.#numTokens++;
    this.#finish(hasStopToken ? tokens.at(-1) ?? null : null, finishReason, delta);
  }

  /** @returns whether a stop string is complete. */
  #pushToken(id: number, logprob: TokenLogprob | null, delta: ChoiceDelta): boolean {
    const piece = this.#detokenizer?.push(id) ?? "";
    const token: AnswerToken = { id, start: this.#numDecoded, logprob };
    const isHalf = piece === "" && this.#tokenizer !== null && this.#tokenizer.tokenBytes(id).length > 0;
    const isStopped = this.#pushText(piece, delta);
    // Nearly all tokens are settled at once.
    if (!isHalf && this.#held.length === 0 && this.#numReleased === this.#numDecoded) delta.tokens.push(token);
    else this.#held.push({ token, end: isHalf ? null : this.#numDecoded });
    return isStopped;
  }

  /** @returns whether a stop string is complete. */
  #pushText(piece: string, delta: ChoiceDelta): boolean {
    if (piece === "") return false;
    this.#numDecoded += piece.length;
    for (const token of this.#held) token.end ??= this.#numDecoded;
    if (this.#stopStrings === null) {
      this.#release(piece, delta);
      return false;
    }
    const { text, match } = this.#stopStrings.push(piece);
    this.#release(text, delta);
    return match !== null;
  }

  #release(text: string, delta: ChoiceDelta): void {
    this.#numReleased += text.length;
    delta.text += text;
  }

  /** Nothing more can come: what was held back, as half a character or as the beginning of a stop string, belongs to the answer. */
  #finish(stopToken: number | null, reason: FinishReason, delta: ChoiceDelta): void {
    delta.stopToken = stopToken;
    if (this.#pushText(this.#detokenizer?.flush() ?? "", delta)) return this.#endAtStop(delta);
    this.#release(this.#stopStrings?.flush() ?? "", delta);
    for (const token of this.#held) token.end ??= this.#numDecoded;
    this.#settle(delta);
    delta.finishReason = reason === "length" ? "length" : "stop";
  }

  #settle(delta: ChoiceDelta): void {
    if (this.#held.length === 0) return;
    const numSettled = this.#held.findIndex(({ end }) => end === null || end > this.#numReleased);
    for (const { token } of this.#held.splice(0, numSettled === -1 ? this.#held.length : numSettled)) delta.tokens.push(token);
  }

  /** A token that begins before the cut has text in the answer; one that begins at it or later has none. */
  #endAtStop(delta: ChoiceDelta): void {
    for (const { token } of this.#held.splice(0)) if (token.start < this.#numReleased) delta.tokens.push(token);
    delta.finishReason = "stop";
  }
}
