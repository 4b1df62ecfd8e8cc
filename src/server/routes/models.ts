import type { Model, ModelList } from "../schemas/responses.ts";
import { checkModelName, type ServedModel } from "../served_model.ts";
import type { Exchange } from "../exchange.ts";
import type { Services } from "../services.ts";

const PATH = "/v1/models/";

function describe({ loaded, maxContext, samplingDefaults, systemFingerprint, createdAt }: ServedModel): Model {
  return {
    id: loaded.id,
    object: "model",
    created: createdAt,
    owned_by: "rowlock",
    model_type: loaded.modelType,
    max_model_len: maxContext,
    vocab_size: loaded.vocabSize,
    system_fingerprint: systemFingerprint,
    sampling_defaults: samplingDefaults,
  };
}

/** GET /v1/models */
export function listModels({ model }: Services): Response {
  const list: ModelList = { object: "list", data: [describe(model)] };
  return Response.json(list);
}

/** GET /v1/models/{id}; an id may hold slashes, as they are or escaped. */
export function getModel({ model }: Services, { request }: Exchange): Response {
  checkModelName(model, decode(new URL(request.url).pathname.slice(PATH.length)));
  return Response.json(describe(model));
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
