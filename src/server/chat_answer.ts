/** The bodies and chunks of chat completions. */
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import { type Answer, type AnswerIdentity, type AnswerNumbers, answerTokenIds } from "./answer.ts";
import type { AnswerToken } from "./choice_text.ts";
import { ChunkFrame } from "./chunk_frame.ts";
import type { ChoiceResult, GenerationEvent } from "./generation.ts";
import { chatLogprobs } from "./logprobs.ts";
import type { ChatCompletion, ChatCompletionChunk } from "./schemas/responses.ts";

export interface ChatAnswerOptions {
  readonly identity: AnswerIdentity;
  readonly tokenizer: Tokenizer | null;
  readonly numChoices: number;
  readonly promptIds: readonly number[];
  readonly hasLogprobs: boolean;
  readonly hasTokenIds: boolean;
  /** Chunks carry `usage: null`, and a last one carries the usage. */
  readonly includesUsage: boolean;
}

type ChunkChoice = ChatCompletionChunk["choices"][number];

export class ChatAnswer implements Answer {
  readonly #options: ChatAnswerOptions;
  readonly #frame: ChunkFrame;
  /** Around the text of a chunk that has nothing else, which nearly all chunks are; the head for each choice. */
  readonly #textHeads: readonly string[];
  readonly #textTail: string;

  constructor(options: ChatAnswerOptions) {
    this.#options = options;
    const object: ChatCompletionChunk["object"] = "chat.completion.chunk";
    this.#frame = new ChunkFrame(options.identity, object, options.includesUsage);
    const { head, tail } = this.#frame;
    this.#textHeads = Array.from({ length: options.numChoices }, (_, index) => `${head}{"index":${index},"delta":{"content":`);
    this.#textTail = `},"logprobs":null,"finish_reason":null}${tail}`;
  }

  whole(results: readonly ChoiceResult[], { usage, timings }: AnswerNumbers): string {
    const { identity, promptIds, hasTokenIds } = this.#options;
    const { id, created, model, system_fingerprint } = identity;
    const body: ChatCompletion = {
      id,
      object: "chat.completion",
      created,
      model,
      system_fingerprint,
      choices: results.map((result) => ({
        index: result.index,
        message: { role: "assistant", content: result.text, refusal: null },
        logprobs: this.#logprobs(result.tokens),
        finish_reason: result.finishReason,
        ...this.#tokenIds(result.tokens, result.stopToken),
      })),
      ...(hasTokenIds ? { prompt_token_ids: [...promptIds] } : {}),
      usage,
      timings,
    };
    return JSON.stringify(body);
  }

  opening(): string {
    const { numChoices, hasTokenIds, promptIds } = this.#options;
    let events = "";
    for (let index = 0; index < numChoices; index++) {
      const fields = hasTokenIds && index === 0 ? { prompt_token_ids: promptIds } : {};
      events += this.#event({ index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }, fields);
    }
    return events;
  }

  events({ index, text, tokens, stopToken, finishReason }: GenerationEvent): string {
    const { hasLogprobs, hasTokenIds } = this.#options;
    let events = "";
    if (tokens.length > 0 && (hasLogprobs || hasTokenIds)) {
      const logprobs = this.#logprobs(tokens);
      events = this.#event({ index, delta: { content: text }, logprobs, finish_reason: null, ...this.#tokenIds(tokens, null) });
    } else if (text !== "") {
      events = this.#textHeads[index] + JSON.stringify(text) + this.#textTail;
    }
    if (finishReason === null) return events;
    return events + this.#event({ index, delta: {}, logprobs: null, finish_reason: finishReason, ...this.#tokenIds([], stopToken) });
  }

  usageEvent(numbers: AnswerNumbers): string {
    return this.#frame.usageEvent(numbers);
  }

  #event(choice: ChunkChoice, fields?: { readonly prompt_token_ids?: readonly number[] }): string {
    return this.#frame.event(choice, fields);
  }

  #logprobs(tokens: readonly AnswerToken[]): ChunkChoice["logprobs"] {
    if (!this.#options.hasLogprobs) return null;
    return { content: chatLogprobs(this.#options.tokenizer, tokens), refusal: null };
  }

  #tokenIds(tokens: readonly AnswerToken[], stopToken: number | null): { token_ids?: number[] } {
    return this.#options.hasTokenIds ? { token_ids: answerTokenIds(tokens, stopToken) } : {};
  }
}
