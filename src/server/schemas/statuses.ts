/** The error statuses that the routes answer with, for the OpenAPI document. Wrong methods (405) and unknown paths belong to no route. */

const DESCRIPTIONS: Readonly<Record<number, string>> = {
  400: "The body, or a value in it, is not of the form that the field takes, or asks for something that is not supported.",
  401: "The server was started with API keys, and the request has none of them.",
  403: "The Host header names another machine.",
  404: "There is no such model.",
  408: "The body did not arrive in time.",
  413: "The body is too large.",
  415: "The body is not plain JSON.",
  422: "A number is out of the field's range.",
  429: "The queue is full; Retry-After tells when to come back.",
  500: "The engine or the server failed.",
  503: "The engine is down, memory is short, too many large bodies are being read or the server is shutting down.",
  504: "The request took longer than the server's limit.",
};

/** Of every route but health, which asks for no key. */
const EVERYWHERE = [401, 403] as const;
const WITH_BODY = [...EVERYWHERE, 400, 404, 408, 413, 415, 500, 503] as const;

/** What a route does, as far as its errors depend on it. */
export type RouteKind = "generate" | "text" | "ids" | "model" | "get" | "health";

const STATUSES: Readonly<Record<RouteKind, readonly number[]>> = {
  generate: [...WITH_BODY, 422, 429, 504],
  text: WITH_BODY,
  ids: [...WITH_BODY, 422],
  model: [...EVERYWHERE, 404],
  get: EVERYWHERE,
  health: [403],
};

/** Status and description of every error that a route of this kind answers with. */
export function errorStatuses(kind: RouteKind): readonly (readonly [status: number, description: string])[] {
  return [...STATUSES[kind]].sort((a, b) => a - b).map((status) => [status, DESCRIPTIONS[status]!]);
}
