import { acquireModel } from "../acquire_model.ts";
import { ChatAnswer } from "../chat_answer.ts";
import { invalidValue } from "../errors.ts";
import { readJsonBody } from "../json_body.ts";
import { chatPromptIds, isPrefill } from "../prompts.ts";
import { respond } from "../respond.ts";
import { ChatCompletionRequest } from "../schemas/chat_completions.ts";
import { parseRequest } from "../schemas/parse.ts";
import { refuseUnsupported, UNSUPPORTED_IN_CHAT } from "../schemas/unsupported.ts";
import type { Exchange } from "../exchange.ts";
import type { AppServices } from "../services.ts";
import { startGeneration } from "../start_generation.ts";

/** POST /v1/chat/completions */
export async function chatCompletions(app: AppServices, exchange: Exchange): Promise<Response> {
  const { options } = app;
  const body = await readJsonBody(exchange.request, options, app.bodies);
  refuseUnsupported(body, UNSUPPORTED_IN_CHAT);
  const fields = parseRequest(ChatCompletionRequest, body);
  const services = await acquireModel(app, exchange, fields.model);
  const { model } = services;
  const hasLogprobs = fields.logprobs ?? false;
  if (fields.top_logprobs && !hasLogprobs) {
    throw invalidValue("top_logprobs", `needs logprobs to be true; found ${fields.top_logprobs} without it`);
  }
  const promptIds = await chatPromptIds(model, { messages: fields.messages, kwargs: fields.chat_template_kwargs ?? {} });
  const id = `chatcmpl-${options.newId()}`;
  const created = Math.floor(options.nowMs() / 1000);
  const generation = startGeneration(services, exchange, {
    id,
    fields,
    prompts: [promptIds],
    param: "messages",
    maxTokens: wantedTokens(fields),
    numTopLogprobs: hasLogprobs ? fields.top_logprobs ?? 0 : -1,
    promptLogprobs: -1,
    isContinuation: isPrefill(fields.messages),
  });
  const isStream = fields.stream ?? false;
  const includesUsage = fields.stream_options?.include_usage ?? false;
  const answer = new ChatAnswer({
    identity: { id, created, model: model.loaded.id, system_fingerprint: model.systemFingerprint },
    tokenizer: model.loaded.tokenizer,
    numChoices: generation.numChoices,
    promptIds,
    hasLogprobs,
    hasTokenIds: fields.return_token_ids ?? false,
    includesUsage,
  });
  return respond(services, exchange, generation, answer, { isStream, includesUsage });
}

/** @throws {ApiError} 400 when the two spellings say different things: obeying either would disobey the other. */
function wantedTokens({ max_completion_tokens: own, max_tokens: alias }: ChatCompletionRequest): number | null {
  if (typeof own === "number" && typeof alias === "number" && own !== alias) {
    throw invalidValue("max_tokens", `must equal max_completion_tokens, ${own}, when both are given; found ${alias}`);
  }
  return own ?? alias ?? null;
}
