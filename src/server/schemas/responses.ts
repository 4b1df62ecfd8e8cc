/** What the server answers: the source of the response types and of their part of the OpenAPI document. */
import { z } from "zod";

const nullable = <T extends z.ZodType>(schema: T): z.ZodNullable<T> => schema.nullable();

export const ErrorResponse = z.object({
  error: z.object({ message: z.string(), type: z.string(), param: nullable(z.string()), code: nullable(z.string()) }),
});

const NamedLogprob = z.object({ token: z.string(), logprob: z.number(), bytes: z.array(z.int()) });
export const ChatLogprob = NamedLogprob.extend({ top_logprobs: z.array(NamedLogprob) });
export type ChatLogprob = z.infer<typeof ChatLogprob>;

export const CompletionLogprobs = z.object({
  tokens: z.array(z.string()),
  token_logprobs: z.array(nullable(z.number())),
  top_logprobs: z.array(nullable(z.record(z.string(), z.number()))),
  text_offset: z.array(z.int()),
});
export type CompletionLogprobs = z.infer<typeof CompletionLogprobs>;

export const Usage = z.object({
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  total_tokens: z.int(),
  prompt_tokens_details: z.object({ cached_tokens: z.int() }),
  completion_tokens_details: z.object({ accepted_prediction_tokens: z.int(), rejected_prediction_tokens: z.int() }).optional()
    .meta({ description: "Tokens that were drafted ahead; with drafts or without, the answer is the same." }),
});
export type Usage = z.infer<typeof Usage>;

export const Timings = z.object({
  queue_ms: nullable(z.number()),
  prefill_ms: nullable(z.number()),
  decode_ms: nullable(z.number()),
  tokens_per_second: nullable(z.number()),
  draft_n: z.int().optional(),
  draft_n_accepted: z.int().optional(),
  draft_rounds: z.int().optional(),
}).meta({ description: "The slowest sequence's times; null where a sequence ended before its first token." });
export type Timings = z.infer<typeof Timings>;

const FinishReason = z.enum(["stop", "length"]);
const identity = { id: z.string(), created: z.int(), model: z.string(), system_fingerprint: z.string() };
const tokenIdLists = { token_ids: z.array(z.int()).optional(), prompt_token_ids: z.array(z.int()).optional() };
const chatLogprobs = nullable(z.object({ content: z.array(ChatLogprob), refusal: z.null() }));

export const ChatCompletion = z.object({
  ...identity,
  object: z.literal("chat.completion"),
  choices: z.array(z.object({
    index: z.int(),
    message: z.object({ role: z.literal("assistant"), content: z.string(), refusal: z.null() }),
    logprobs: chatLogprobs,
    finish_reason: FinishReason,
    token_ids: tokenIdLists.token_ids,
  })),
  prompt_token_ids: tokenIdLists.prompt_token_ids,
  usage: Usage,
  timings: Timings,
});
export type ChatCompletion = z.infer<typeof ChatCompletion>;

export const ChatCompletionChunk = z.object({
  ...identity,
  object: z.literal("chat.completion.chunk"),
  choices: z.array(z.object({
    index: z.int(),
    delta: z.object({ role: z.literal("assistant").optional(), content: z.string().optional() }),
    logprobs: chatLogprobs,
    finish_reason: nullable(FinishReason),
    token_ids: tokenIdLists.token_ids,
  })),
  prompt_token_ids: tokenIdLists.prompt_token_ids,
  usage: nullable(Usage).optional(),
  timings: Timings.optional(),
});
export type ChatCompletionChunk = z.infer<typeof ChatCompletionChunk>;

const completionChoice = { index: z.int(), text: z.string(), logprobs: nullable(CompletionLogprobs), ...tokenIdLists };

export const Completion = z.object({
  ...identity,
  object: z.literal("text_completion"),
  choices: z.array(z.object({ ...completionChoice, finish_reason: FinishReason })),
  usage: Usage,
  timings: Timings,
});
export type Completion = z.infer<typeof Completion>;

export const CompletionChunk = z.object({
  ...identity,
  object: z.literal("text_completion"),
  choices: z.array(z.object({ ...completionChoice, finish_reason: nullable(FinishReason) })),
  usage: nullable(Usage).optional(),
  timings: Timings.optional(),
});
export type CompletionChunk = z.infer<typeof CompletionChunk>;

const modelStatus = z.enum(["loaded", "loading", "unloading", "unloaded", "failed"])
  .meta({ description: "A request loads a model that is not; one that has failed is tried again." });

export const Model = z.object({
  id: z.string(),
  object: z.literal("model"),
  created: z.int(),
  owned_by: z.string(),
  model_type: z.string(),
  max_model_len: z.int(),
  vocab_size: z.int(),
  system_fingerprint: z.string(),
  sampling_defaults: z.record(z.string(), z.unknown()),
  status: modelStatus,
});
export type Model = z.infer<typeof Model>;

export const ModelList = z.object({ object: z.literal("list"), data: z.array(Model) });
export type ModelList = z.infer<typeof ModelList>;

export const Health = z.object({
  status: z.enum(["ok", "draining", "unavailable"]),
  reason: z.string(),
  models: z.array(z.object({ id: z.string(), status: modelStatus, reason: z.string() })),
});
export type Health = z.infer<typeof Health>;

export const ServerInfo = z.object({ name: z.string(), version: z.string(), api: z.string(), documentation: z.string() });
export type ServerInfo = z.infer<typeof ServerInfo>;

export const TokenizeResponse = z.object({
  tokens: z.array(z.int()),
  count: z.int(),
  max_model_len: z.int(),
  pieces: z.array(z.string()).optional(),
});
export type TokenizeResponse = z.infer<typeof TokenizeResponse>;

export const DetokenizeResponse = z.object({ content: z.string() });
export type DetokenizeResponse = z.infer<typeof DetokenizeResponse>;

export const ApplyTemplateResponse = z.object({ prompt: z.string() });
export type ApplyTemplateResponse = z.infer<typeof ApplyTemplateResponse>;
