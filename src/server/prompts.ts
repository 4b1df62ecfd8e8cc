/** From what a client sent as its prompt to token ids. */
import { type ChatPromptOptions, encodeChat, renderChat } from "../tokenizer/chat_prompt.ts";
import type { ChatTemplate } from "../tokenizer/chat_template.ts";
import { RESERVED_TEMPLATE_NAMES } from "../tokenizer/jinja_template.ts";
import type { EncodeOptions, Tokenizer } from "../tokenizer/tokenizer.ts";
import { contextOverflow } from "./admission.ts";
import type { EchoedPrompt } from "./completion_answer.ts";
import { ApiError, invalidValue } from "./errors.ts";
import { show } from "./schemas/fields.ts";
import type { Message } from "./schemas/messages.ts";
import type { PromptInput } from "./schemas/completions.ts";
import type { ServedModel } from "./served_model.ts";
import { utf8Length } from "./utf8_length.ts";

/** Texts up to this many characters per token of context are tokenized without a closer look. */
const EASY_CHARS_PER_TOKEN = 8;
/**
 * Texts up to this many bytes of UTF-8 are tokenized at once, which takes up to 20 milliseconds for the worst of them (one word, or characters of
 * many tokens each); longer ones would keep the streams waiting.
 */
const SHORT_BYTES = 1 << 13;
/** What a template does for a message of no text takes as long as so many bytes of text. */
const BYTES_PER_OBJECT = 64;

/** Names that other servers let a client set and that would replace the template or its inputs. */
const REFUSED_KWARGS = new Set([...RESERVED_TEMPLATE_NAMES, "chat_template", "tokenize", "continue_final_message", "conversation"]);

type TemplateMessage = Record<string, unknown>;

export interface ChatInput {
  readonly messages: readonly Message[];
  readonly kwargs: Readonly<Record<string, unknown>>;
}

/** The tokenizer. @throws {ApiError} 400 for models that come without one. */
export function requireTokenizer(model: ServedModel, param: string): Tokenizer {
  const { tokenizer } = model.loaded;
  if (tokenizer === null) throw invalidValue(param, "needs a tokenizer, and the loaded model has none; send token ids to /v1/completions");
  return tokenizer;
}

function requireTemplate(model: ServedModel): ChatTemplate {
  const { chatTemplate, id } = model.loaded;
  if (chatTemplate !== null) return chatTemplate;
  throw new ApiError(400, `messages: the model ${show(id)} has no chat template; use /v1/completions`, {
    param: "messages",
    code: "no_chat_template",
  });
}

/** The ids of a conversation. A last message of the assistant is the beginning of the answer. */
export async function chatPromptIds(model: ServedModel, input: ChatInput): Promise<number[]> {
  const { tokenizer, template, messages, options, isLong } = prepareChat(model, input);
  if (!isLong) return encodeChat(tokenizer, template, messages, options);
  const [ids] = await model.longPrompts!.run({ type: "chat", messages, options }, "messages");
  return ids!;
}

interface PreparedChat {
  readonly tokenizer: Tokenizer;
  readonly template: ChatTemplate;
  readonly messages: readonly TemplateMessage[];
  readonly options: ChatPromptOptions;
  /** So long that a thread of its own has to go through it, and there is one. */
  readonly isLong: boolean;
}

/** @throws {ApiError} 400 for a model that cannot chat, and for messages that no template may have. */
function prepareChat(model: ServedModel, input: ChatInput): PreparedChat {
  const tokenizer = requireTokenizer(model, "messages");
  const template = requireTemplate(model);
  const messages = prepare(model, input);
  const options: ChatPromptOptions = { kwargs: input.kwargs, continueFinalMessage: isPrefill(input.messages) };
  const isLong = model.longPrompts !== null && workOf({ messages, kwargs: input.kwargs }) > SHORT_BYTES;
  return { tokenizer, template, messages, options, isLong };
}

/** How much a template has to go through, in bytes: a list of 8,000 greetings is a long text too. */
function workOf(value: unknown): number {
  if (typeof value === "string") return utf8Length(value);
  if (typeof value !== "object" || value === null) return 1;
  return Object.values(value).reduce<number>((sum, item) => sum + workOf(item), BYTES_PER_OBJECT);
}

function numCharsOf(messages: readonly TemplateMessage[]): number {
  return messages.reduce((sum, { content }) => sum + (content as string).length, 0);
}

/** The ids of each text, in their order. @throws {ApiError} 400 for a text that fits in no context. */
export async function encodeTexts(
  model: ServedModel,
  texts: readonly string[],
  options: EncodeOptions,
  param: string,
): Promise<number[][]> {
  const tokenizer = requireTokenizer(model, param);
  for (const text of texts) checkLength(model, text.length, param);
  const numBytes = texts.reduce((sum, text) => sum + utf8Length(text), 0);
  if (model.longPrompts !== null && numBytes > SHORT_BYTES) return await model.longPrompts.run({ type: "texts", texts, options }, param);
  return texts.map((text) => tokenizer.encode(text, options));
}

/** The same as text, for people. */
export async function chatPromptText(model: ServedModel, input: ChatInput): Promise<string> {
  const { tokenizer, template, messages, options, isLong } = prepareChat(model, input);
  if (!isLong) return renderChat(tokenizer, template, messages, options);
  return await model.longPrompts!.run({ type: "render", messages, options }, "messages");
}

/** Whether the last message is the beginning of the answer. */
export function isPrefill(messages: readonly Message[]): boolean {
  const last = messages.at(-1);
  return last?.role === "assistant" && textOf(last.content) !== "" && !last.tool_calls?.length;
}

function prepare(model: ServedModel, { messages, kwargs }: ChatInput): TemplateMessage[] {
  const reserved = Object.keys(kwargs).find((name) => REFUSED_KWARGS.has(name));
  if (reserved !== undefined) {
    throw invalidValue("chat_template_kwargs", `must not name the template's own inputs; found ${show(reserved)}`);
  }
  const prepared = messages.map(toTemplateMessage);
  checkLength(model, numCharsOf(prepared), "messages");
  return prepared;
}

/** What templates expect: content as text, the role that they know, no keys with null. */
function toTemplateMessage(message: Message): TemplateMessage {
  const { role, content, ...rest } = message;
  const given = Object.entries(rest).filter(([, value]) => value !== null && value !== undefined);
  return { role: role === "developer" ? "system" : role, content: textOf(content), ...Object.fromEntries(given) };
}

function textOf(content: Message["content"]): string {
  if (content === null || content === undefined) return "";
  return typeof content === "string" ? content : content.map(({ text }) => text).join("");
}

export interface CompletionPromptOptions {
  /** The text of control tokens stands for the tokens. */
  readonly parsesSpecial: boolean;
  /** Only an echo shows the text of ids. */
  readonly isEcho: boolean;
}

/** The prompts of a completion request: one, or several. */
export async function completionPrompts(
  model: ServedModel,
  prompt: PromptInput,
  options: CompletionPromptOptions,
): Promise<EchoedPrompt[]> {
  const items = typeof prompt === "string"
    ? [prompt]
    : typeof prompt[0] === "number"
    ? [prompt as number[]]
    : prompt as string[] | number[][];
  const texts = items.filter((item) => typeof item === "string");
  if (texts.length === 0) return (items as number[][]).map((ids) => idPrompt(model, ids, options));
  const encoded = await encodeTexts(model, texts, { addSpecial: true, parseSpecial: options.parsesSpecial }, "prompt");
  return texts.map((text, i) => textPrompt(model, text, encoded[i]!));
}

function textPrompt({ loaded: { tokenizer } }: ServedModel, text: string, ids: number[]): EchoedPrompt {
  if (ids.length > 0) return { ids, text };
  // There has to be a token whose answer is the first one of the text.
  const bosId = tokenizer?.bosId ?? null;
  if (bosId === null) throw invalidValue("prompt", 'must have at least 1 token, as the model has no BOS token; found ""');
  return { ids: [bosId], text };
}

/** Ids are taken as they are; whether the vocabulary has them is checked at admission. */
function idPrompt(model: ServedModel, ids: number[], { isEcho }: CompletionPromptOptions): EchoedPrompt {
  const { tokenizer, vocabSize } = model.loaded;
  const canDecode = isEcho && tokenizer !== null && ids.every((id) => id >= 0 && id < vocabSize);
  return { ids, text: canDecode ? tokenizer.decode(ids, { keepSpecial: true }) : "" };
}

/**
 * Refuses a text that cannot fit before time is spent on its tokens: no token has more characters than the longest one.
 * @throws {ApiError} 400 `context_length_exceeded`.
 */
function checkLength(model: ServedModel, numChars: number, param: string): void {
  const { maxContext } = model;
  if (numChars <= EASY_CHARS_PER_TOKEN * maxContext) return;
  const numTokens = Math.ceil(numChars / Math.max(1, model.longestTokenBytes()));
  if (numTokens > maxContext) throw contextOverflow(`at least ${numTokens}`, maxContext, param);
}
