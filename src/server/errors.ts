/** The one error type of the server, the one mapper from anything that was thrown, and OpenAI's error object. */
import { EngineError } from "../engine/engine.ts";
import type { EngineErrorCode } from "../engine/messages.ts";
import { ChatTemplateError } from "../tokenizer/chat_template.ts";

export type ErrorStatus = 400 | 401 | 403 | 404 | 405 | 408 | 413 | 415 | 422 | 429 | 500 | 503 | 504;

export interface ApiErrorOptions {
  /** The request field at fault, as a path: `messages[0].content`. */
  readonly param?: string | null;
  /** Machine-readable cause, e.g. `context_length_exceeded`. */
  readonly code?: string | null;
  /** Extra response headers, e.g. `retry-after`. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

/** What a client is told when its request cannot be served. */
export class ApiError extends Error {
  override name = "ApiError";
  readonly param: string | null;
  readonly code: string | null;
  readonly headers: Readonly<Record<string, string>>;

  constructor(readonly status: ErrorStatus, message: string, options: ApiErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.param = options.param ?? null;
    this.code = options.code ?? null;
    this.headers = options.headers ?? {};
  }

  /** OpenAI's family of the error. */
  get type(): string {
    return ERROR_TYPES[this.status] ?? (this.status >= 500 ? "server_error" : "invalid_request_error");
  }
}

const ERROR_TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  429: "rate_limit_error",
};

/** OpenAI's error object. */
export interface ErrorBody {
  readonly error: { readonly message: string; readonly type: string; readonly param: string | null; readonly code: string | null };
}

/** A value that is not of the type, or not of the form, that the field takes. */
export function invalidValue(param: string, message: string): ApiError {
  return new ApiError(400, `${param}: ${message}`, { param, code: "invalid_value" });
}

/** A number outside the field's domain. */
export function outOfRange(param: string, message: string): ApiError {
  return new ApiError(422, `${param}: ${message}`, { param, code: "out_of_range" });
}

/** The server has been told to stop. @param headers beside the error's own. */
export function shuttingDown(headers: Readonly<Record<string, string>> = {}): ApiError {
  return new ApiError(503, "The server is shutting down", { code: "shutting_down", headers: { "retry-after": "5", ...headers } });
}

/** A model that this server does not have. */
export function modelNotFound(name: string, ids: readonly string[]): ApiError {
  const has = ids.map((id) => JSON.stringify(id)).join(", ");
  return new ApiError(404, `The model ${JSON.stringify(name)} is not served here; this server has ${has}`, {
    param: "model",
    code: "model_not_found",
  });
}

/** A field that exists in the protocol and that this server cannot honour. */
export function unsupported(param: string, message: string): ApiError {
  return new ApiError(400, `${param}: ${message}`, { param, code: "unsupported_parameter" });
}

// Without this header the official clients send a failed request three times: an answer that failed once for its own reasons fails again.
const NO_RETRY = { "x-should-retry": "false" };

function fromEngineError(error: EngineError): ApiError {
  const details: Readonly<Record<EngineErrorCode, readonly [ErrorStatus, Readonly<Record<string, string>>]>> = {
    queue_full: [429, { "retry-after": "1" }],
    engine_error: [500, NO_RETRY],
    row_broken: [500, NO_RETRY],
    out_of_memory: [503, { "retry-after": "1" }],
    shutting_down: [503, { "retry-after": "1" }],
  };
  const [status, headers] = details[error.code] ?? [500, NO_RETRY];
  return new ApiError(status, error.message, { code: error.code, headers, cause: error });
}

/** The mapper: whatever was thrown, as the error that the client sees. Texts of unexpected errors stay in the log. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof EngineError) return fromEngineError(error);
  if (error instanceof ChatTemplateError) {
    return new ApiError(400, `messages: the model's chat template refuses them: ${error.message}`, {
      param: "messages",
      code: "invalid_value",
      cause: error,
    });
  }
  return new ApiError(500, "Internal server error", { code: "internal_error", headers: NO_RETRY, cause: error });
}

/** The body of an error answer, also the data of an error event in a stream. */
export function errorBody(error: ApiError): ErrorBody {
  return { error: { message: error.message, type: error.type, param: error.param, code: error.code } };
}

/** The answer to a request that failed before its first byte. */
export function errorResponse(error: ApiError): Response {
  return new Response(JSON.stringify(errorBody(error)), {
    status: error.status,
    headers: { "content-type": "application/json", ...error.headers },
  });
}
