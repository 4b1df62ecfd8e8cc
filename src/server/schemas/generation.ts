/** Fields that chat completions and completions share beside the sampling fields. */
import { z } from "zod";
import { DRAFT_KINDS } from "../../engine/messages.ts";
import { boolean, integer, list, optional, show, string, tokenIds } from "./fields.ts";

const MAX_STOP_STRINGS = 16;
const MAX_STOP_CHARS = 1024;
const MAX_SALT_CHARS = 256;

const stopString = string("A text").refine((text) => text.length > 0 && text.length <= MAX_STOP_CHARS, {
  error: (issue) => `must have 1 to ${MAX_STOP_CHARS} characters; found ${(issue.input as string).length}`,
});

const stop = z.union([stopString, list(stopString, { maxItems: MAX_STOP_STRINGS, plural: "strings", wanted: "must be a list" })], {
  error: (issue) => `must be a string or a list of up to ${MAX_STOP_STRINGS} strings; found ${show(issue.input)}`,
}).meta({
  description: `The answer ends before the first of these texts: at most ${MAX_STOP_STRINGS}, each of 1 to ${MAX_STOP_CHARS} characters.`,
});

const streamOptions = z.object({ include_usage: optional(boolean("Send a last chunk with the usage and no choices.")) }, {
  error: (issue) => `must be an object; found ${show(issue.input)}`,
}).meta({ description: "Without stream it has no effect." });

const speculative = z.union([z.boolean(), z.enum(DRAFT_KINDS)], {
  error: (issue) => `must be true, false or one of ${DRAFT_KINDS.join(", ")}; found ${show(issue.input)}`,
}).meta({ description: "Whether tokens are drafted ahead, or by whom. Changes the speed, never the answer." });

const cacheSalt = z.string({ error: (issue) => `must be a string; found ${show(issue.input)}` }).min(1, {
  error: () => `must have 1 to ${MAX_SALT_CHARS} characters; found 0`,
}).max(MAX_SALT_CHARS, {
  error: (issue) => `must have 1 to ${MAX_SALT_CHARS} characters; found ${(issue.input as string).length}`,
}).meta({ description: "Computed prompts are shared among requests of the same salt alone. Changes the speed, never the answer." });

/** The shape to spread into a request schema. */
export const GENERATION_SHAPE = {
  model: optional(string("The id or another name of a served model; default, empty or absent: the first.")),
  stop: optional(stop),
  stop_token_ids: optional(tokenIds("The answer ends before the first of these tokens.")),
  n: optional(integer("Choices for one prompt, each with a seed derived from the request's.", { min: 1, max: 16 })),
  stream: optional(boolean("Send the answer as server-sent events.")),
  stream_options: optional(streamOptions),
  user: optional(string("Has no effect on the answer.")),
  speculative: optional(speculative),
  cache_prompt: optional(
    boolean("false: take nothing from the prefix cache and leave nothing there. Changes the speed, never the answer."),
  ),
  cache_salt: optional(cacheSalt),
  return_token_ids: optional(boolean("Add prompt_token_ids and token_ids to the answer.")),
};
