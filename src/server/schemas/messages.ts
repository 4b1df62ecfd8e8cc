/** Chat messages as clients send them: content as text, as parts, or null where the role allows it. */
import { z } from "zod";
import { list, optional, show, string } from "./fields.ts";

const MAX_MESSAGES = 8192;
const MAX_PARTS = 8192;
const MAX_TOOL_CALLS = 1024;

const textPart = z.object({ type: z.literal("text"), text: string("The part's text.") });
const part = z.discriminatedUnion("type", [textPart], {
  error: (issue) =>
    issue.code === "invalid_union" ? undefined : `must be a content part, an object with type and text; found ${show(issue.input)}`,
});

const content = z.union([z.string(), list(part, { maxItems: MAX_PARTS, plural: "parts", wanted: "must be a list" })], {
  error: (issue) => `must be a string or a list of up to ${MAX_PARTS} text parts; found ${show(issue.input)}`,
}).meta({ description: "A text, or text parts that are joined." });

const functionCall = z.object({ name: string("The function's name."), arguments: string("JSON, as the model wrote it.") });
const toolCall = z.object({ id: string("The call's id."), type: z.literal("function"), function: functionCall });

const name = optional(string("Who speaks."));

/** One message. Tool calls and their results may stand in the history: the model's template decides what it makes of them. */
export const Message = z.discriminatedUnion("role", [
  z.object({ role: z.literal("system"), content, name }),
  z.object({ role: z.literal("developer"), content, name }),
  z.object({ role: z.literal("user"), content, name }),
  z.object({
    role: z.literal("assistant"),
    content: optional(content),
    name,
    refusal: optional(z.string()),
    tool_calls: optional(list(toolCall, { maxItems: MAX_TOOL_CALLS, plural: "calls", wanted: "must be a list of calls" })),
  }),
  z.object({ role: z.literal("tool"), content, tool_call_id: string("The id of the call that this answers."), name }),
], {
  error: (issue) =>
    issue.code === "invalid_union" ? undefined : `must be a message, an object with role and content; found ${show(issue.input)}`,
});
export type Message = z.infer<typeof Message>;

export const Messages = list(Message, { maxItems: MAX_MESSAGES, minItems: 1, plural: "messages", wanted: "must be a list of messages" });

export const TemplateKwargs = z.record(z.string(), z.unknown(), { error: (issue) => `must be an object; found ${show(issue.input)}` })
  .meta({ description: "Extra variables of the chat template. Names of its own inputs are refused." });
