/** What the two shapes of answers have in common. */
import type { AnswerToken } from "./choice_text.ts";
import type { Exchange } from "./exchange.ts";
import type { ChoiceResult, Generation, GenerationEvent } from "./generation.ts";
import type { Timings, Usage } from "./schemas/responses.ts";

/** Builds the bodies of one request's answer: one whole body, or the events of a stream, as its reader gets them. */
export interface Answer {
  whole(results: readonly ChoiceResult[], numbers: AnswerNumbers): string;
  /** Events before any token. */
  opening(): string;
  /** Events for what one choice has brought; "" when there is nothing to show. */
  events(news: GenerationEvent): string;
  /** The last chunk's event, for those who asked for it: no choices. */
  usageEvent(numbers: AnswerNumbers): string;
}

/** What is the same in every body and chunk of one answer. */
export interface AnswerIdentity {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
}

export interface AnswerNumbers {
  readonly usage: Usage;
  readonly timings: Timings;
}

/** Usage and timings, as far as they are known by now. */
export function answerNumbers(exchange: Exchange, generation: Generation): AnswerNumbers {
  const promptTokens = exchange.promptTokens ?? 0;
  const summary = generation.summary();
  const { completionTokens, cachedTokens, drafts } = summary;
  return {
    usage: {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
      prompt_tokens_details: { cached_tokens: cachedTokens },
      ...(drafts === null ? {} : {
        completion_tokens_details: {
          accepted_prediction_tokens: drafts.numAccepted,
          rejected_prediction_tokens: drafts.numDrafts - drafts.numAccepted,
        },
      }),
    },
    timings: {
      queue_ms: rounded(summary.queueMs),
      prefill_ms: rounded(summary.prefillMs),
      decode_ms: rounded(summary.decodeMs),
      tokens_per_second: rounded(summary.tokensPerSecond),
      ...(drafts === null ? {} : { draft_n: drafts.numDrafts, draft_n_accepted: drafts.numAccepted, draft_rounds: drafts.numRounds }),
    },
  };
}

function rounded(value: number | null): number | null {
  return value === null ? null : Math.round(value * 1000) / 1000;
}

/** Ids of an answer; the token that ended it is one of them, though it has no text. */
export function answerTokenIds(tokens: readonly AnswerToken[], stopToken: number | null): number[] {
  const ids = tokens.map(({ id }) => id);
  return stopToken === null ? ids : [...ids, stopToken];
}
