/** From a checked request to sequences that run: the last checks, a place in the queue, and everything that can end them early. */
import type { DraftKind, GenerateRequest } from "../engine/messages.ts";
import type { SamplingConfig } from "../engine/sampling.ts";
import { admitTokens } from "./admission.ts";
import { ApiError, invalidValue, outOfRange } from "./errors.ts";
import { ClientGoneError, type Exchange } from "./exchange.ts";
import { Generation, type Sequence } from "./generation.ts";
import { toSamplingConfig } from "./sampling_params.ts";
import type { ChatCompletionRequest } from "./schemas/chat_completions.ts";
import type { CompletionRequest } from "./schemas/completions.ts";
import { canonicalSeed, choiceSeed } from "./seeds.ts";
import { checkTokenIds } from "./served_model.ts";
import type { Services } from "./services.ts";

/** What a route wants generated. */
export interface Wanted {
  /** Unique; the engine's ids are made from it. */
  readonly id: string;
  readonly fields: Omit<ChatCompletionRequest, "messages" | "logprobs"> | Omit<CompletionRequest, "prompt" | "logprobs">;
  readonly prompts: readonly (readonly number[])[];
  /** Field that the prompts come from. */
  readonly param: "messages" | "prompt";
  readonly maxTokens: number | null;
  /** -1 none, else the number of alternatives. */
  readonly numTopLogprobs: number;
  /** The same for the prompt's tokens. */
  readonly promptLogprobs: number;
  /** The answers go on after text of the prompt. */
  readonly isContinuation: boolean;
}

/**
 * Starts the sequences: `n` for each prompt, prompt by prompt.
 * @throws {ApiError} when the request cannot be admitted.
 */
export function startGeneration(services: Services, exchange: Exchange, wanted: Wanted): Generation {
  const { engine, admission, options } = services;
  if (!engine.health.ok) {
    throw new ApiError(503, `The engine cannot serve requests: ${engine.health.reason}`, {
      code: "engine_unavailable",
      headers: { "retry-after": "5" },
    });
  }
  const sequences = toSequences(services, wanted);
  const release = admission.admit(sequences.length, wanted.prompts.length > 1 ? wanted.param : "n", options.nowMs);
  exchange.promptTokens = wanted.prompts.reduce((sum, ids) => sum + ids.length, 0);
  try {
    return run(services, exchange, sequences, release, wanted.fields.n ?? 1);
  } catch (error) {
    release();
    throw error;
  }
}

function run(
  services: Services,
  exchange: Exchange,
  sequences: readonly Sequence[],
  release: () => void,
  numChoicesPerPrompt: number,
): Generation {
  const { options, live, metrics, engine, model } = services;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const generation: Generation = new Generation(engine, sequences, {
    tokenizer: model.loaded.tokenizer,
    nowMs: options.nowMs,
    numChoicesPerPrompt,
    onRound: (round) => metrics.observeRound(round),
    canDraft: (engine.facts.draftKinds ?? []).length > 0,
    onEnd: (summary) => {
      release();
      services.releaseModel();
      clearTimeout(timer);
      exchange.unwatchClient();
      live.delete(generation);
      exchange.summary = summary;
      metrics.observeGeneration({
        requestSeconds: (options.nowMs() - exchange.startMs) / 1000,
        firstTokenSeconds: summary.firstTokenMs === null ? null : summary.firstTokenMs / 1000,
      });
    },
  });
  live.add(generation);
  exchange.watchClient(() => generation.abort(new ClientGoneError("The client went away")));
  if (options.requestTimeoutMs < Infinity) {
    timer = setTimeout(() => generation.abort(timeoutError(options.requestTimeoutMs)), options.requestTimeoutMs);
  }
  return generation;
}

/** The request took longer than it may. */
export function timeoutError(timeoutMs: number): ApiError {
  return new ApiError(504, `The request took longer than ${timeoutMs} ms`, {
    code: "request_timeout",
    headers: { "x-should-retry": "false" },
  });
}

function toSequences(services: Services, wanted: Wanted): Sequence[] {
  const { model, engine, options } = services;
  const { fields, param } = wanted;
  const { vocabSize } = model.loaded;
  const stop = stopStrings(services, fields.stop);
  const stopIds = stopTokenIds(services, fields);
  const draftKind = wantedDraftKind(services, fields.speculative);
  const config = toSamplingConfig(fields, model, { seed: 0n, numTopLogprobs: wanted.numTopLogprobs });
  if (wanted.maxTokens !== null && config.minTokens > wanted.maxTokens) {
    throw outOfRange("min_tokens", `must be from 0 to max_tokens, ${wanted.maxTokens}; found ${fields.min_tokens}`);
  }
  checkSomethingIsAllowed(config, stopIds);
  return wanted.prompts.flatMap((promptIds, p) => {
    checkTokenIds(promptIds, vocabSize, param);
    const maxTokens = admitTokens({
      numPromptTokens: promptIds.length,
      maxTokens: wanted.maxTokens,
      maxContext: model.maxContext,
      maxRowTokens: engine.facts.maxRowTokens ?? Infinity,
      param,
    });
    const seed = canonicalSeed(fields.seed) ?? options.randomSeed();
    return Array.from({ length: fields.n ?? 1 }, (_, i): Sequence => {
      const sampling: SamplingConfig = Object.freeze({ ...config, seed: choiceSeed(seed, i) });
      const request: GenerateRequest = {
        id: `${wanted.id}/${p}/${i}`,
        promptIds: Int32Array.from(promptIds),
        sampling,
        maxTokens,
        stopIds,
        promptLogprobs: wanted.promptLogprobs,
        ...(draftKind === undefined ? {} : { draftKind }),
        ...(fields.cache_prompt === false ? { cachePrompt: false } : {}),
        ...(typeof fields.cache_salt === "string" ? { cacheSalt: fields.cache_salt } : {}),
      };
      return { request, stop, isContinuation: wanted.isContinuation };
    });
  });
}

/** A row that may draw nothing would fail after it has begun: bans that leave none of the allowed tokens are refused. */
function checkSomethingIsAllowed({ allowedTokenIds, badWords, minTokens }: SamplingConfig, stopIds: readonly number[]): void {
  if (allowedTokenIds === null) return;
  const banned = new Set([...(minTokens > 0 ? stopIds : []), ...badWords.filter((ids) => ids.length === 1).map((ids) => ids[0]!)]);
  if (allowedTokenIds.some((id) => !banned.has(id))) return;
  const bans = minTokens > 0 ? "bad_words nor, before min_tokens, a stop token" : "bad_words";
  throw outOfRange(
    "allowed_token_ids",
    `must hold a token that is not banned by ${bans}; found [${allowedTokenIds.slice(0, 8).join(", ")}]`,
  );
}

/** true asks for what happens anyway: where nothing is loaded, the answer is the same, only later. */
function wantedDraftKind({ engine }: Services, wanted: Wanted["fields"]["speculative"]): DraftKind | "none" | undefined {
  if (wanted === null || wanted === undefined || wanted === true) return undefined;
  if (wanted === false) return "none";
  const loaded = engine.facts.draftKinds ?? [];
  if (loaded.includes(wanted)) return wanted;
  const allowed = [true, false, ...loaded].join(", ");
  throw invalidValue("speculative", `must be one of ${allowed}, which is what this server has loaded; found "${wanted}"`);
}

function stopStrings({ model }: Services, stop: string | string[] | null | undefined): readonly string[] {
  const stops = stop === null || stop === undefined ? [] : [stop].flat();
  if (stops.length > 0 && model.loaded.tokenizer === null) {
    throw invalidValue("stop", "needs a tokenizer, and the loaded model has none; use stop_token_ids");
  }
  return stops;
}

/** ignore_eos takes away the model's own stop tokens; those that the request names stay. */
function stopTokenIds({ model }: Services, fields: Wanted["fields"]): readonly number[] {
  const own = fields.stop_token_ids ?? [];
  checkTokenIds(own, model.loaded.vocabSize, "stop_token_ids");
  return [...new Set([...(fields.ignore_eos ? [] : model.loaded.stopIds), ...own])];
}
