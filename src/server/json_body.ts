/** Reads a JSON request body without trusting it: size, encoding, depth and text are checked before anything else sees the value. */
import type { BodyBudget, BodyShare } from "./body_budget.ts";
import { ApiError } from "./errors.ts";
import { exactSeed } from "./exact_seed.ts";
import { JsonScanner } from "./json_scanner.ts";

/** Texts beyond this are worked on in turns with everybody else's streams. */
const LONG_TEXT_CHARS = 1 << 18;

export interface JsonBodyLimits {
  readonly maxBodyBytes: number;
  /** Time for the whole body to arrive. */
  readonly bodyTimeoutMs: number;
  /** Arrays and objects inside one another. */
  readonly maxJsonDepth: number;
}

/**
 * The parsed body. A number named `seed` that a double cannot hold comes as bigint, or as text when it is no integer.
 * @param bodies what all bodies take together.
 * @throws {ApiError} 400, 408, 413, 415 or 503.
 */
export async function readJsonBody(request: Request, limits: JsonBodyLimits, bodies: BodyBudget): Promise<Record<string, unknown>> {
  checkHeaders(request.headers);
  using share = bodies.open();
  const scanner = new JsonScanner(limits.maxJsonDepth);
  const text = await readText(request, limits, share, scanner);
  const letOthers = (): Promise<void> => text.length > LONG_TEXT_CHARS ? nextTurn() : Promise.resolve();
  await letOthers();
  const value = parseJson(text);
  await letOthers();
  if (/\\u[dD][89a-fA-F]/.test(text)) checkWellFormed(value, "");
  await letOthers();
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new ApiError(400, `The request body must be a JSON object; found ${describe(value)}`, { code: "invalid_json" });
  }
  const body = value as Record<string, unknown>;
  if (typeof body["seed"] === "number") body["seed"] = exactSeed(scanner.seedLiteral, body["seed"]);
  return body;
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

function describe(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "an array" : `a ${typeof value}`;
}

function checkHeaders(headers: Headers): void {
  // A page of another site may post text/plain, form data or a blob without a type without asking; JSON needs a preflight. So only JSON is read.
  const contentType = headers.get("content-type") ?? "";
  if (!/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(contentType)) {
    throw new ApiError(415, `Content-Type must be application/json; found ${JSON.stringify(contentType)}`, {
      code: "unsupported_media_type",
    });
  }
  const contentEncoding = headers.get("content-encoding") ?? "identity";
  if (contentEncoding.toLowerCase() !== "identity") {
    throw new ApiError(415, `Content-Encoding must be identity; found ${JSON.stringify(contentEncoding)}`, {
      code: "unsupported_media_type",
    });
  }
}

/** Decodes and scans each part when it arrives, so that a large body costs no long pause at its end. */
async function readText(
  request: Request,
  { maxBodyBytes, bodyTimeoutMs }: JsonBodyLimits,
  share: BodyShare,
  scanner: JsonScanner,
): Promise<string> {
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (declared > maxBodyBytes) throw tooLarge(maxBodyBytes, String(declared));
  await share.grow(declared);
  const reader = request.body?.getReader();
  if (reader === undefined) return "";
  // A client that sends a byte a minute would keep its connection and its buffers for ever.
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    reader.cancel().catch(() => {});
  }, bodyTimeoutMs);
  try {
    const text = await readAll(reader, maxBodyBytes, share, scanner);
    if (!isLate) return text;
  } catch (error) {
    if (error instanceof ApiError) throw error;
    if (!isLate) throw new ApiError(400, "The request body ended early", { code: "incomplete_body", cause: error });
  } finally {
    clearTimeout(timer);
  }
  throw new ApiError(408, `The request body must arrive within ${bodyTimeoutMs} ms; found only a part of it`, { code: "body_timeout" });
}

async function readAll(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  maxBodyBytes: number,
  share: BodyShare,
  scanner: JsonScanner,
): Promise<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let text = "";
  let numBytes = 0;
  let fault: unknown = null;
  const take = (part: Uint8Array | undefined): void => {
    if (fault !== null) return;
    try {
      const piece = decodeUtf8(decoder, part);
      scanner.push(piece);
      text += piece;
    } catch (error) {
      // Many clients hear of an answer only when they have sent everything.
      fault = error;
      text = "";
    }
  };
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    numBytes += part.value.byteLength;
    if (numBytes > maxBodyBytes) throw tooLarge(maxBodyBytes, "more");
    // Bodies without a declared length.
    await share.grow(numBytes);
    take(part.value);
  }
  take(undefined);
  if (fault !== null) throw fault;
  return text;
}

function tooLarge(maxBodyBytes: number, found: string): ApiError {
  return new ApiError(413, `The request body may have ${maxBodyBytes} bytes; found ${found}`, { code: "body_too_large" });
}

/** @param part undefined after the last one: a character may be missing its end. */
function decodeUtf8(decoder: TextDecoder, part: Uint8Array | undefined): string {
  try {
    return part === undefined ? decoder.decode() : decoder.decode(part, { stream: true });
  } catch (error) {
    throw new ApiError(400, "The request body must be UTF-8", { code: "invalid_json", cause: error });
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError(400, `The request body is not valid JSON: ${(error as Error).message}`, { code: "invalid_json", cause: error });
  }
}

/** Half of a surrogate pair has no UTF-8 form: tokenizers and encoders would each replace it in their own way. */
function checkWellFormed(value: unknown, path: string): void {
  if (typeof value === "string" && !value.isWellFormed()) {
    throw new ApiError(400, `${path}: text must be well-formed Unicode; found half of a surrogate pair`, {
      param: path,
      code: "invalid_value",
    });
  }
  if (typeof value !== "object" || value === null) return;
  for (const [key, item] of Object.entries(value)) {
    checkWellFormed(item, Array.isArray(value) ? `${path}[${key}]` : path === "" ? key : `${path}.${key}`);
  }
}
