/** The bodies and chunks of completions. */
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import { type Answer, type AnswerIdentity, type AnswerNumbers, answerTokenIds } from "./answer.ts";
import type { AnswerToken } from "./choice_text.ts";
import { ChunkFrame } from "./chunk_frame.ts";
import type { ChoiceResult, GenerationEvent } from "./generation.ts";
import { CompletionLogprobsBuilder } from "./logprobs.ts";
import type { Completion, CompletionChunk, CompletionLogprobs } from "./schemas/responses.ts";

/** One prompt as the answer may show it. */
export interface EchoedPrompt {
  readonly ids: readonly number[];
  /** Exactly what the client sent; of ids, their text. */
  readonly text: string;
}

export interface CompletionAnswerOptions {
  readonly identity: AnswerIdentity;
  readonly tokenizer: Tokenizer | null;
  readonly prompts: readonly EchoedPrompt[];
  readonly numChoicesPerPrompt: number;
  readonly isEcho: boolean;
  /** -1 none. */
  readonly numTopLogprobs: number;
  readonly hasTokenIds: boolean;
  readonly includesUsage: boolean;
}

type ChunkChoice = CompletionChunk["choices"][number];

/** Where one choice's stream is. */
interface ChoiceState {
  readonly prompt: EchoedPrompt;
  readonly logprobs: CompletionLogprobsBuilder;
  text: string;
  hasOpened: boolean;
}

export class CompletionAnswer implements Answer {
  readonly #options: CompletionAnswerOptions;
  readonly #states: readonly ChoiceState[];
  readonly #frame: ChunkFrame;

  constructor(options: CompletionAnswerOptions) {
    this.#options = options;
    const object: CompletionChunk["object"] = "text_completion";
    this.#frame = new ChunkFrame(options.identity, object, options.includesUsage);
    this.#states = options.prompts.flatMap((prompt) =>
      Array.from({ length: options.numChoicesPerPrompt }, (): ChoiceState => ({
        prompt,
        logprobs: new CompletionLogprobsBuilder(options.tokenizer, options.numTopLogprobs),
        text: "",
        hasOpened: false,
      }))
    );
  }

  whole(results: readonly ChoiceResult[], { usage, timings }: AnswerNumbers): string {
    const { id, created, model, system_fingerprint } = this.#options.identity;
    const body: Completion = {
      id,
      object: "text_completion",
      created,
      model,
      system_fingerprint,
      choices: results.map((result) => {
        const { index, text, logprobs, prompt_token_ids } = this.#content(result);
        return {
          index,
          text,
          logprobs,
          finish_reason: result.finishReason,
          ...(prompt_token_ids === undefined ? {} : { prompt_token_ids }),
          ...this.#tokenIds(result.tokens, result.stopToken),
        };
      }),
      usage,
      timings,
    };
    return JSON.stringify(body);
  }

  opening(): string {
    return "";
  }

  events(news: GenerationEvent): string {
    const { isEcho, numTopLogprobs, hasTokenIds } = this.#options;
    const { index, text, tokens, stopToken, finishReason } = news;
    const isFirst = !this.#states[index]!.hasOpened;
    const hasTokens = tokens.length > 0 && (numTopLogprobs >= 0 || hasTokenIds);
    const isShown = text !== "" || hasTokens || (isFirst && (isEcho || hasTokenIds));
    const events = isShown ? this.#event(this.#content(news)) : "";
    if (finishReason === null) return events;
    return events + this.#event({ index, text: "", logprobs: null, finish_reason: finishReason, ...this.#tokenIds([], stopToken) });
  }

  usageEvent(numbers: AnswerNumbers): string {
    return this.#frame.usageEvent(numbers);
  }

  /** Text and logprobs of an event, the echoed prompt before the first. */
  #content({ index, text, tokens, promptLogprobs }: GenerationEvent): ChunkChoice {
    const { isEcho, hasTokenIds, numTopLogprobs } = this.#options;
    const state = this.#states[index]!;
    const isFirst = !state.hasOpened;
    state.hasOpened = true;
    state.text += text;
    const { prompt } = state;
    const hasEcho = isEcho && isFirst;
    let logprobs: CompletionLogprobs | null = null;
    if (numTopLogprobs >= 0) {
      const echoed = hasEcho ? state.logprobs.prompt(prompt.ids, promptLogprobs ?? [], prompt.text) : null;
      logprobs = joined(echoed, state.logprobs.answer(tokens, state.text));
    }
    return {
      index,
      text: hasEcho ? prompt.text + text : text,
      logprobs,
      finish_reason: null,
      ...(isFirst && hasTokenIds ? { prompt_token_ids: [...prompt.ids] } : {}),
      ...this.#tokenIds(tokens, null),
    };
  }

  #event(choice: ChunkChoice): string {
    return this.#frame.event(choice);
  }

  #tokenIds(tokens: readonly AnswerToken[], stopToken: number | null): { token_ids?: number[] } {
    return this.#options.hasTokenIds ? { token_ids: answerTokenIds(tokens, stopToken) } : {};
  }
}

function joined(first: CompletionLogprobs | null, second: CompletionLogprobs): CompletionLogprobs {
  if (first === null) return second;
  return {
    tokens: [...first.tokens, ...second.tokens],
    token_logprobs: [...first.token_logprobs, ...second.token_logprobs],
    top_logprobs: [...first.top_logprobs, ...second.top_logprobs],
    text_offset: [...first.text_offset, ...second.text_offset],
  };
}
