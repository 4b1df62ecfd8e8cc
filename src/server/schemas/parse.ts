/** Runs a request schema and turns the first issue into the one error that the client sees. */
import type { z } from "zod";
import { ApiError } from "../errors.ts";
import { show } from "./fields.ts";

type Issue = z.core.$ZodIssue;

/** @throws {ApiError} 400 for a wrong type, 422 for a number out of range, `param` named. */
export function parseRequest<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  throw toError(deepest(result.error.issues[0]!), body);
}

/** A union reports one list of issues per member; the one that got furthest is what the client meant. */
function deepest(issue: Issue): Issue {
  if (issue.code !== "invalid_union") return issue;
  let best: Issue | null = null;
  for (const member of issue.errors) {
    const first = member[0];
    if (first === undefined) continue;
    const candidate = deepest({ ...first, path: [...issue.path, ...first.path] } as Issue);
    if (best === null || candidate.path.length > best.path.length) best = candidate;
  }
  return best !== null && best.path.length > issue.path.length ? best : issue;
}

function toError(issue: Issue, body: unknown): ApiError {
  const path = formatPath(issue.path);
  // Clients look for the field that they sent; only messages are so many that the place within has to be told apart.
  const param = issue.path[0] === "messages" ? path : String(issue.path[0] ?? "");
  const found = valueAt(body, issue.path);
  // 1e400 is a number for JSON and Infinity for JavaScript: its type is right and its value is not.
  const isOutOfRange = (issue.code === "custom" && issue.params?.["isOutOfRange"] === true) ||
    (issue.code === "invalid_type" && issue.expected === "number" && typeof found === "number") || issue.code === "too_big" ||
    issue.code === "too_small";
  const status = isOutOfRange && typeof found === "number" || typeof found === "bigint" ? 422 : 400;
  const code = status === 422 ? "out_of_range" : found === undefined ? "missing_required_parameter" : "invalid_value";
  return new ApiError(status, `${path || "The request body"}: ${messageOf(issue, found)}`, { param: param || null, code });
}

function messageOf(issue: Issue, found: unknown): string {
  if (found === undefined && issue.code !== "custom") return "is required";
  if (issue.code === "invalid_union" && issue.discriminator !== undefined) {
    const options = (issue as { options?: readonly unknown[] }).options ?? [];
    const allowed = options.map(show).join(", ");
    // Parts of a message: pictures and sound are in the protocol, and no model here takes them.
    if (issue.discriminator === "type") return `only parts of type ${allowed} are supported; found ${show(found)}`;
    return `must be one of ${allowed}; found ${show(found)}`;
  }
  return issue.message.includes("; found ") ? issue.message : `${issue.message}; found ${show(found)}`;
}

/** `messages[0].content[1].text`. */
function formatPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, key) => typeof key === "number" ? `${text}[${key}]` : text === "" ? String(key) : `${text}.${String(key)}`,
    "",
  );
}

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  let value = body;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}
