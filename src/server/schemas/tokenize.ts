import { z } from "zod";
import { boolean, optional, string, tokenIds } from "./fields.ts";
import { Messages, TemplateKwargs } from "./messages.ts";

const model = optional(string("The id of a served model, or default."));

/** The body of POST /tokenize. */
export const TokenizeRequest = z.object({
  model,
  content: string("The text."),
  add_special: optional(boolean("Add the tokens that the model wants around a text, such as BOS.")),
  parse_special: optional(boolean("Read the text of control tokens as the tokens; by default it is plain text.")),
  with_pieces: optional(boolean("Add every token's text.")),
});

/** The body of POST /detokenize. */
export const DetokenizeRequest = z.object({
  model,
  tokens: tokenIds("The token ids."),
  keep_special: optional(boolean("Show control tokens as text.")),
});

/** The body of POST /apply-template. */
export const ApplyTemplateRequest = z.object({ model, messages: Messages, chat_template_kwargs: optional(TemplateKwargs) });
