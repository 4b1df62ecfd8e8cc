import type { Exchange } from "../exchange.ts";
import type { PooledModel } from "../pooled_model.ts";
import type { Model, ModelList } from "../schemas/responses.ts";
import type { AppServices } from "../services.ts";

const PATH = "/v1/models/";

function describe({ served, status, maxRowTokens }: PooledModel): Model {
  const { loaded, samplingDefaults, systemFingerprint, createdAt } = served;
  return {
    id: loaded.id,
    object: "model",
    created: createdAt,
    owned_by: "rowlock",
    model_type: loaded.modelType,
    max_model_len: maxRowTokens,
    vocab_size: loaded.vocabSize,
    system_fingerprint: systemFingerprint,
    sampling_defaults: samplingDefaults,
    status,
  };
}

/** GET /v1/models: all that may be asked for, loaded or not. */
export function listModels({ pool }: AppServices): Response {
  const list: ModelList = { object: "list", data: pool.models.map(describe) };
  return Response.json(list);
}

/** GET /v1/models/{id}; an id may hold slashes, as they are or escaped. */
export function getModel({ pool }: AppServices, { request }: Exchange): Response {
  return Response.json(describe(pool.find(decode(new URL(request.url).pathname.slice(PATH.length)))));
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
