import { z } from "zod";
import { boolean, integer, optional, show } from "./fields.ts";
import { GENERATION_SHAPE } from "./generation.ts";
import { SAMPLING_SHAPE } from "./sampling.ts";

/** A text, texts, token ids, or lists of token ids. */
export type PromptInput = string | string[] | number[] | number[][];

const WANTED = "must be a string, a list of strings, a list of token ids or a list of lists of token ids";
/** Prompts of one request, and ids of one prompt. */
const MAX_PROMPTS = 1024;
const MAX_IDS = 1 << 18;
const isId = (value: unknown): boolean => typeof value === "number" && Number.isInteger(value);

/** What is wrong with a prompt, or null. One pass by hand: a union would try every member on every one of 10,000 ids. */
function promptFault(prompt: unknown): string | null {
  if (typeof prompt === "string") return null;
  if (!Array.isArray(prompt)) return `${WANTED}; found ${show(prompt)}`;
  if (prompt.length === 0) return `${WANTED}, not empty; found []`;
  const first = prompt[0];
  const maxItems = typeof first === "number" ? MAX_IDS : MAX_PROMPTS;
  if (prompt.length > maxItems) return `must have at most ${maxItems} items; found ${prompt.length}`;
  const isKind = typeof first === "string"
    ? (item: unknown): boolean => typeof item === "string"
    : typeof first === "number"
    ? isId
    : (item: unknown): boolean => Array.isArray(item) && item.length > 0 && item.every(isId);
  const wrong = prompt.findIndex((item) => !isKind(item));
  return wrong === -1 ? null : `${WANTED}, not empty; found ${show(prompt[wrong])} at ${wrong}`;
}

const ids = { type: "array", items: { type: "integer", minimum: 0 }, minItems: 1, maxItems: MAX_IDS };
const prompt = z.unknown().superRefine((value, context) => {
  const message = value === undefined || value === null ? "is required" : promptFault(value);
  if (message !== null) context.addIssue({ code: "custom", message });
}).meta({
  description: "Text or token ids of one prompt or of several; every prompt has its own choices, in order.",
  anyOf: [
    { type: "string" },
    { type: "array", items: { type: "string" }, minItems: 1, maxItems: MAX_PROMPTS },
    ids,
    { type: "array", items: ids, minItems: 1, maxItems: MAX_PROMPTS },
  ],
}) as unknown as z.ZodType<PromptInput, PromptInput>;

/** The body of POST /v1/completions. */
export const CompletionRequest = z.object({
  ...GENERATION_SHAPE,
  ...SAMPLING_SHAPE,
  prompt,
  max_tokens: optional(
    integer("Tokens of the answer at most; absent: the rest of the context. 0 scores the prompt.", { min: 0, max: Infinity }),
  ),
  echo: optional(boolean("Put the prompt before the answer, in text and logprobs.")),
  logprobs: optional(integer("Report logprobs, with this many alternatives.", { min: 0, max: 20 })),
  parse_special: optional(boolean("Read the text of control tokens in a text prompt as the tokens; by default it is plain text.")),
});
export type CompletionRequest = z.infer<typeof CompletionRequest>;
