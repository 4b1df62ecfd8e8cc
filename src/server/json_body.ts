/** Reads a JSON request body without trusting it: size, encoding, depth and text are checked before anything else sees the value. */
import { ApiError } from "./errors.ts";

export interface JsonBodyLimits {
  readonly maxBodyBytes: number;
  /** Time for the whole body to arrive. */
  readonly bodyTimeoutMs: number;
  /** Arrays and objects inside one another. */
  readonly maxJsonDepth: number;
}

/**
 * The parsed body. Integers of a field named `seed` that a double cannot hold come as bigint.
 * @throws {ApiError} 400, 408, 413 or 415.
 */
export async function readJsonBody(request: Request, limits: JsonBodyLimits): Promise<Record<string, unknown>> {
  checkHeaders(request.headers);
  const text = decodeUtf8(await readBytes(request, limits));
  checkDepth(text, limits.maxJsonDepth);
  const value = parseJson(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new ApiError(400, `The request body must be a JSON object; found ${describe(value)}`, { code: "invalid_json" });
  }
  return value as Record<string, unknown>;
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

async function readBytes(request: Request, { maxBodyBytes, bodyTimeoutMs }: JsonBodyLimits): Promise<Uint8Array> {
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (declared > maxBodyBytes) throw tooLarge(maxBodyBytes, String(declared));
  const reader = request.body?.getReader();
  if (reader === undefined) return new Uint8Array();
  // A client that sends a byte a minute would keep its connection and its buffers for ever.
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    reader.cancel().catch(() => {});
  }, bodyTimeoutMs);
  try {
    const bytes = await readAll(reader, maxBodyBytes);
    if (!isLate) return bytes;
  } catch (error) {
    if (error instanceof ApiError) throw error;
    if (!isLate) throw new ApiError(400, "The request body ended early", { code: "incomplete_body", cause: error });
  } finally {
    clearTimeout(timer);
  }
  throw new ApiError(408, `The request body must arrive within ${bodyTimeoutMs} ms; found only a part of it`, { code: "body_timeout" });
}

async function readAll(reader: ReadableStreamDefaultReader<Uint8Array>, maxBodyBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let numBytes = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    numBytes += part.value.byteLength;
    if (numBytes > maxBodyBytes) throw tooLarge(maxBodyBytes, "more");
    chunks.push(part.value);
  }
  const bytes = new Uint8Array(numBytes);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.byteLength;
  }
  return bytes;
}

function tooLarge(maxBodyBytes: number, found: string): ApiError {
  return new ApiError(413, `The request body may have ${maxBodyBytes} bytes; found ${found}`, { code: "body_too_large" });
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw new ApiError(400, "The request body must be UTF-8", { code: "invalid_json", cause: error });
  }
}

/** Counts brackets outside strings: a parsed value that is too deep would break every recursive reader after this one. */
function checkDepth(text: string, maxDepth: number): void {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x22) i = endOfString(text, i);
    else if (code === 0x5b || code === 0x7b) depth++;
    else if (code === 0x5d || code === 0x7d) depth--;
    if (depth > maxDepth) {
      throw new ApiError(400, `The request body may nest ${maxDepth} arrays and objects; found more`, { code: "invalid_json" });
    }
  }
}

function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end !== -1 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end === -1 ? text.length : end;
}

function isEscaped(text: string, index: number): boolean {
  let numBackslashes = 0;
  while (text.charCodeAt(index - 1 - numBackslashes) === 0x5c) numBackslashes++;
  return numBackslashes % 2 === 1;
}

function parseJson(text: string): unknown {
  try {
    // Revivers cost a call per value, so they run only when the text has something for them to see.
    const value = /\d{16}|\d[eE]/.test(text) ? JSON.parse(text, keepExactSeed as Parameters<typeof JSON.parse>[1]) : JSON.parse(text);
    if (/\\u[dD][89a-fA-F]/.test(text)) checkWellFormed(value, "");
    return value;
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError(400, `The request body is not valid JSON: ${(error as Error).message}`, { code: "invalid_json", cause: error });
  }
}

/** `source` is the number as it was written (ES2025); JSON.parse alone would round it. */
function keepExactSeed(key: string, value: unknown, context?: { readonly source?: string }): unknown {
  if (key !== "seed" || typeof value !== "number" || Number.isSafeInteger(value)) return value;
  const source = context?.source ?? "";
  return /^-?\d+$/.test(source) ? BigInt(source) : value;
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
