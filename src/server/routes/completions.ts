import { acquireModel } from "../acquire_model.ts";
import { CompletionAnswer } from "../completion_answer.ts";
import { readJsonBody } from "../json_body.ts";
import { completionPrompts } from "../prompts.ts";
import { respond } from "../respond.ts";
import { CompletionRequest } from "../schemas/completions.ts";
import { parseRequest } from "../schemas/parse.ts";
import { refuseUnsupported, UNSUPPORTED_IN_COMPLETIONS } from "../schemas/unsupported.ts";
import type { Exchange } from "../exchange.ts";
import type { AppServices } from "../services.ts";
import { startGeneration } from "../start_generation.ts";

/** POST /v1/completions */
export async function completions(app: AppServices, exchange: Exchange): Promise<Response> {
  const { options } = app;
  const body = await readJsonBody(exchange.request, options, app.bodies);
  refuseUnsupported(body, UNSUPPORTED_IN_COMPLETIONS);
  const fields = parseRequest(CompletionRequest, body);
  const services = await acquireModel(app, exchange, fields.model);
  const { model } = services;
  const isEcho = fields.echo ?? false;
  const prompts = await completionPrompts(model, fields.prompt, { isEcho, parsesSpecial: fields.parse_special ?? false });
  const numTopLogprobs = fields.logprobs ?? -1;
  const id = `cmpl-${options.newId()}`;
  const created = Math.floor(options.nowMs() / 1000);
  const generation = startGeneration(services, exchange, {
    id,
    fields,
    prompts: prompts.map(({ ids }) => ids),
    param: "prompt",
    maxTokens: fields.max_tokens ?? null,
    numTopLogprobs,
    promptLogprobs: isEcho ? numTopLogprobs : -1,
    isContinuation: true,
  });
  const includesUsage = fields.stream_options?.include_usage ?? false;
  const answer = new CompletionAnswer({
    identity: { id, created, model: model.loaded.id, system_fingerprint: model.systemFingerprint },
    tokenizer: model.loaded.tokenizer,
    prompts,
    numChoicesPerPrompt: fields.n ?? 1,
    isEcho,
    numTopLogprobs,
    hasTokenIds: fields.return_token_ids ?? false,
    includesUsage,
  });
  return respond(services, exchange, generation, answer, { isStream: fields.stream ?? false, includesUsage });
}
