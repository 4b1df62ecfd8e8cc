/** The OpenAPI 3.1 document: paths from the table below, schemas from zod. */
import { z } from "zod";
import { ChatCompletionRequest } from "./chat_completions.ts";
import { CompletionRequest } from "./completions.ts";
import * as responses from "./responses.ts";
import { errorStatuses, type RouteKind } from "./statuses.ts";
import { ApplyTemplateRequest, DetokenizeRequest, TokenizeRequest } from "./tokenize.ts";

const SCHEMAS = {
  ChatCompletionRequest,
  CompletionRequest,
  TokenizeRequest,
  DetokenizeRequest,
  ApplyTemplateRequest,
  ChatCompletion: responses.ChatCompletion,
  ChatCompletionChunk: responses.ChatCompletionChunk,
  Completion: responses.Completion,
  CompletionChunk: responses.CompletionChunk,
  Model: responses.Model,
  ModelList: responses.ModelList,
  Health: responses.Health,
  ServerInfo: responses.ServerInfo,
  TokenizeResponse: responses.TokenizeResponse,
  DetokenizeResponse: responses.DetokenizeResponse,
  ApplyTemplateResponse: responses.ApplyTemplateResponse,
  ErrorResponse: responses.ErrorResponse,
};
type SchemaName = keyof typeof SCHEMAS;

interface Operation {
  readonly path: string;
  readonly method: "get" | "post";
  readonly id: string;
  readonly summary: string;
  readonly request?: SchemaName;
  /** null: plain text. */
  readonly response: SchemaName | null;
  /** Of every event of a stream. */
  readonly chunk?: SchemaName;
  readonly pathParameter?: string;
}

const OPERATIONS: readonly Operation[] = [
  {
    path: "/v1/chat/completions",
    method: "post",
    id: "createChatCompletion",
    summary: "Answers a conversation.",
    request: "ChatCompletionRequest",
    response: "ChatCompletion",
    chunk: "ChatCompletionChunk",
  },
  {
    path: "/v1/completions",
    method: "post",
    id: "createCompletion",
    summary: "Goes on after one prompt or several.",
    request: "CompletionRequest",
    response: "Completion",
    chunk: "CompletionChunk",
  },
  { path: "/v1/models", method: "get", id: "listModels", summary: "All models that a request may name.", response: "ModelList" },
  { path: "/v1/models/{id}", method: "get", id: "getModel", summary: "One of them.", response: "Model", pathParameter: "id" },
  {
    path: "/tokenize",
    method: "post",
    id: "tokenize",
    summary: "Text to token ids.",
    request: "TokenizeRequest",
    response: "TokenizeResponse",
  },
  {
    path: "/detokenize",
    method: "post",
    id: "detokenize",
    summary: "Token ids to text.",
    request: "DetokenizeRequest",
    response: "DetokenizeResponse",
  },
  {
    path: "/apply-template",
    method: "post",
    id: "applyTemplate",
    summary: "Messages to the prompt's text.",
    request: "ApplyTemplateRequest",
    response: "ApplyTemplateResponse",
  },
  { path: "/", method: "get", id: "root", summary: "What this is, and where the API and this document lie.", response: "ServerInfo" },
  { path: "/health", method: "get", id: "health", summary: "Whether requests can be served; 503 when not.", response: "Health" },
  { path: "/metrics", method: "get", id: "metrics", summary: "Prometheus metrics.", response: null },
  { path: "/openapi.json", method: "get", id: "openApi", summary: "This document.", response: null },
];

type Json = Record<string, unknown>;
const ref = (name: SchemaName): Json => ({ $ref: `#/components/schemas/${name}` });

/** The document. */
export function openApiDocument(version: string): Json {
  const paths: Record<string, Json> = {};
  for (const operation of OPERATIONS) paths[operation.path] = { ...paths[operation.path], [operation.method]: describe(operation) };
  return {
    openapi: "3.1.0",
    info: { title: "Rowlock", version, description: "Language models, OpenAI-compatible, with every row's own sampling." },
    paths,
    components: {
      schemas: componentSchemas(),
      securitySchemes: { apiKey: { type: "http", scheme: "bearer", description: "Asked for when the server was started with keys." } },
    },
    security: [{}, { apiKey: [] }],
  };
}

/** An event, as readers of streams see it: its data is a chunk, an error, or the word for the end. */
function describeEvent(chunk: SchemaName): Json {
  const json = { type: "string", contentMediaType: "application/json", contentSchema: { anyOf: [ref(chunk), ref("ErrorResponse")] } };
  return { type: "object", properties: { data: { anyOf: [{ const: "[DONE]" }, json] } }, required: ["data"] };
}

function describe(operation: Operation): Json {
  const { id, summary, request, response, chunk, pathParameter } = operation;
  const content: Json = response === null
    ? { [id === "metrics" ? "text/plain" : "application/json"]: { schema: { type: id === "metrics" ? "string" : "object" } } }
    : { "application/json": { schema: ref(response) } };
  if (chunk !== undefined) content["text/event-stream"] = { schema: describeEvent(chunk) };
  const ok = { description: "The answer.", content };
  return {
    operationId: id,
    summary,
    ...(pathParameter === undefined
      ? {}
      : { parameters: [{ name: pathParameter, in: "path", required: true, schema: { type: "string" } }] }),
    ...(request === undefined ? {} : { requestBody: { required: true, content: { "application/json": { schema: ref(request) } } } }),
    responses: { 200: ok, ...(id === "health" ? { 503: ok } : {}), ...describeErrors(operation) },
  };
}

function describeErrors(operation: Operation): Json {
  const content = { "application/json": { schema: ref("ErrorResponse") } };
  return Object.fromEntries(errorStatuses(kindOf(operation)).map(([status, description]) => [status, { description, content }]));
}

function kindOf({ id, request, chunk, pathParameter }: Operation): RouteKind {
  if (id === "health") return "health";
  if (request === undefined) return pathParameter === undefined ? "get" : "model";
  return chunk !== undefined ? "generate" : request === "DetokenizeRequest" ? "ids" : "text";
}

function componentSchemas(): Json {
  const entries = Object.entries(SCHEMAS).map(([name, schema]) => {
    // Requests are described as they may be sent: unknown fields are ignored. Answers as they come.
    const io = name.endsWith("Request") ? "input" : "output";
    const { $schema: _schema, ...json } = z.toJSONSchema(schema, { io, target: "draft-2020-12" }) as Json;
    return [name, json];
  });
  return Object.fromEntries(entries);
}
