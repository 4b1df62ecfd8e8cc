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

  constructor(options: ChatAnswerOptions) {
    this.#options = options;
    const object: ChatCompletionChunk["object"] = "chat.completion.chunk";
    this.#frame = new ChunkFrame(options.identity, object, options.includesUsage);
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

  opening(): string[] {
    const { numChoices, hasTokenIds, promptIds } = this.#options;
    return Array.from({ length: numChoices }, (_, index) => {
      const chunk = this.#chunk({ index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null });
      return hasTokenIds && index === 0 ? `${chunk.slice(0, -1)},"prompt_token_ids":${JSON.stringify(promptIds)}}` : chunk;
    });
  }

  chunks({ index, text, tokens, stopToken, finishReason }: GenerationEvent): string[] {
    const { hasLogprobs, hasTokenIds } = this.#options;
    const chunks: string[] = [];
    if (tokens.length > 0 && (hasLogprobs || hasTokenIds)) {
      const logprobs = this.#logprobs(tokens);
      chunks.push(this.#chunk({ index, delta: { content: text }, logprobs, finish_reason: null, ...this.#tokenIds(tokens, null) }));
    } else if (text !== "") {
      chunks.push(this.#textChunk(index, text));
    }
    if (finishReason !== null) {
      chunks.push(this.#chunk({ index, delta: {}, logprobs: null, finish_reason: finishReason, ...this.#tokenIds([], stopToken) }));
    }
    return chunks;
  }

  usageChunk(numbers: AnswerNumbers): string {
    return this.#frame.usageChunk(numbers);
  }

  #chunk(choice: ChunkChoice): string {
    return this.#frame.chunk(`[${JSON.stringify(choice)}]`);
  }

  /** `#chunk` of nothing but text, which nearly all chunks are. */
  #textChunk(index: number, text: string): string {
    const choice = `{"index":${index},"delta":{"content":${JSON.stringify(text)}},"logprobs":null,"finish_reason":null}`;
    return this.#frame.chunk(`[${choice}]`);
  }

  #logprobs(tokens: readonly AnswerToken[]): ChunkChoice["logprobs"] {
    if (!this.#options.hasLogprobs) return null;
    return { content: chatLogprobs(this.#options.tokenizer, tokens), refusal: null };
  }

  #tokenIds(tokens: readonly AnswerToken[], stopToken: number | null): { token_ids?: number[] } {
    return this.#options.hasTokenIds ? { token_ids: answerTokenIds(tokens, stopToken) } : {};
  }
}
