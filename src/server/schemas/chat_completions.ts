import { z } from "zod";
import { boolean, integer, optional } from "./fields.ts";
import { GENERATION_SHAPE } from "./generation.ts";
import { Messages, TemplateKwargs } from "./messages.ts";
import { SAMPLING_SHAPE } from "./sampling.ts";

/** The body of POST /v1/chat/completions. */
export const ChatCompletionRequest = z.object({
  ...GENERATION_SHAPE,
  ...SAMPLING_SHAPE,
  messages: Messages,
  max_tokens: optional(integer("Tokens of the answer at most; absent: the rest of the context.", { min: 1, max: Infinity })),
  max_completion_tokens: optional(integer("The newer name of max_tokens; must equal it when both are sent.", { min: 1, max: Infinity })),
  logprobs: optional(boolean("Report the logprob of every token, from the processed logits before temperature and filters.")),
  top_logprobs: optional(integer("Alternatives reported at every token; needs logprobs.", { min: 0, max: 20 })),
  chat_template_kwargs: optional(TemplateKwargs),
});
export type ChatCompletionRequest = z.infer<typeof ChatCompletionRequest>;
