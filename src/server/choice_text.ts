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

/** What an update added to the answer. Concatenated, the deltas of a sequence are its answer. */
export interface ChoiceDelta {
  readonly text: string;
  /** Tokens whose text is settled: no stop string can take them back. */
  readonly tokens: readonly AnswerToken[];
  /** The token that ended the sequence: it has no text and is not part of `tokens`. */
  readonly stopToken: number | null;
  readonly finishReason: "stop" | "length" | null;
}

export interface ChoiceTextOptions {
  readonly stop: readonly string[];
  /** The answer goes on after text of the prompt, so a leading space is part of it. */
  readonly isContinuation: boolean;
}

/** A token whose text may still be taken back. `end` is null while its bytes are half a character. */
interface HeldToken extends AnswerToken {
  end: number | null;
}

export class ChoiceText {
  readonly #tokenizer: Tokenizer | null;
  readonly #detokenizer: Detokenizer | null;
  readonly #stopStrings: StopStrings;
  readonly #held: HeldToken[] = [];
  #numDecoded = 0;
  #numReleased = 0;
  #numTokens = 0;

  /** @param tokenizer null: there is no text, and tokens are settled at once. */
  constructor(tokenizer: Tokenizer | null, options: ChoiceTextOptions) {
    this.#tokenizer = tokenizer;
    this.#detokenizer = tokenizer === null ? null : new Detokenizer(tokenizer, { isContinuation: options.isContinuation });
    this.#stopStrings = new StopStrings(options.stop);
  }

  /** Tokens that were generated for this answer, the one that ended it included. */
  get numTokens(): number {
    return this.#numTokens;
  }

  /** Takes the tokens of `update`; those after a stop string are not looked at. */
  push(update: RowUpdate): ChoiceDelta {
    const hasStopToken = update.finishReason === "stop";
    const numTextTokens = update.tokens.length - (hasStopToken ? 1 : 0);
    let text = "";
    for (let i = 0; i < numTextTokens; i++) {
      this.#numTokens++;
      const { text: released, isStopped } = this.#pushToken(update.tokens[i]!, update.logprobs[i] ?? null);
      text += released;
      if (isStopped) return { text, tokens: this.#settleAtStop(), stopToken: null, finishReason: "stop" };
    }
    if (update.finishReason === null) return { text, tokens: this.#settle(), stopToken: null, finishReason: null };
    if (hasStopToken) this.#numTokens++;
    return this.#finish(text, hasStopToken ? update.tokens.at(-1) ?? null : null, update.finishReason);
  }

  #pushToken(id: number, logprob: TokenLogprob | null): { readonly text: string; readonly isStopped: boolean } {
    const piece = this.#detokenizer?.push([id]) ?? "";
    const start = this.#numDecoded;
    const isHalf = piece === "" && this.#tokenizer !== null && this.#tokenizer.tokenBytes(id).length > 0;
    this.#held.push({ id, start, logprob, end: isHalf ? null : start + piece.length });
    return this.#pushText(piece);
  }

  #pushText(piece: string): { readonly text: string; readonly isStopped: boolean } {
    if (piece === "") return { text: "", isStopped: false };
    this.#numDecoded += piece.length;
    for (const token of this.#held) token.end ??= this.#numDecoded;
    const { text, match } = this.#stopStrings.push(piece);
    this.#numReleased += text.length;
    return { text, isStopped: match !== null };
  }

  /** Nothing more can come: what was held back, as half a character or as the beginning of a stop string, belongs to the answer. */
  #finish(text: string, stopToken: number | null, reason: FinishReason): ChoiceDelta {
    const last = this.#pushText(this.#detokenizer?.flush() ?? "");
    if (last.isStopped) return { text: text + last.text, tokens: this.#settleAtStop(), stopToken, finishReason: "stop" };
    const rest = this.#stopStrings.flush();
    this.#numReleased += rest.length;
    for (const token of this.#held) token.end ??= this.#numDecoded;
    const finishReason = reason === "length" ? "length" : "stop";
    return { text: text + last.text + rest, tokens: this.#settle(), stopToken, finishReason };
  }

  #settle(): readonly AnswerToken[] {
    const numSettled = this.#held.findIndex(({ end }) => end === null || end > this.#numReleased);
    return this.#held.splice(0, numSettled === -1 ? this.#held.length : numSettled).map(toAnswerToken);
  }

  /** A token that begins before the cut has text in the answer; one that begins at it or later has none. */
  #settleAtStop(): readonly AnswerToken[] {
    return this.#held.splice(0).filter(({ start }) => start < this.#numReleased).map(toAnswerToken);
  }
}

function toAnswerToken({ id, start, logprob }: HeldToken): AnswerToken {
  return { id, start, logprob };
}
