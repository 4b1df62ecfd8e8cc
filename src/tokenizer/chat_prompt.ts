/** From chat messages to the ids of a prompt, with the model's own template. */
import { type ChatTemplate, ChatTemplateError, type ChatTemplateOptions } from "./chat_template.ts";
import { ProtectedText } from "./protected_text.ts";
import { SpecialTokenSplitter } from "./special_tokens.ts";
import type { Tokenizer } from "./tokenizer.ts";

export type ChatMessage = Readonly<Record<string, unknown>>;

export interface ChatPromptOptions {
  readonly tools?: readonly unknown[];
  readonly kwargs?: Readonly<Record<string, unknown>>;
  /** Adds what opens the assistant's turn. Default: true, unless the final message is continued. */
  readonly addGenerationPrompt?: boolean;
  /** The last message is the beginning of the assistant's answer: the prompt ends where its content ends. */
  readonly continueFinalMessage?: boolean;
}

/**
 * Special tokens come from the template only: text in messages, names, tools and template variables that looks like one is data. A BOS is put in
 * front when the tokenizer adds one and the template has not written it.
 * @throws {ChatTemplateError} when the template refuses the messages, or the final message cannot be continued.
 */
export function encodeChat(
  tokenizer: Tokenizer,
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  options: ChatPromptOptions = {},
): number[] {
  const inputs = { messages: messages.map(normalized), tools: options.tools, kwargs: options.kwargs };
  const data = new ProtectedText(tokenizer.specialTokens, inputs);
  const rendered = render(template, data, inputs, options);
  const ids: number[] = [];
  for (const [i, part] of new SpecialTokenSplitter(tokenizer.specialTokens).split(rendered).entries()) {
    if ("special" in part) ids.push(part.special.id);
    else for (const id of tokenizer.encode(data.restore(part.text), { isContinuation: i > 0 })) ids.push(id);
  }
  const { bosId } = tokenizer;
  const addsBos = bosId !== null && ids[0] !== bosId && tokenizer.encode("", { addSpecial: true })[0] === bosId;
  return addsBos ? [bosId, ...ids] : ids;
}

/** The prompt's text, for people: special-token text of users looks like the template's own here. */
export function renderChat(
  tokenizer: Tokenizer,
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  options: ChatPromptOptions = {},
): string {
  const inputs = { messages: messages.map(normalized), tools: options.tools, kwargs: options.kwargs };
  const data = new ProtectedText(tokenizer.specialTokens, inputs);
  return data.restore(render(template, data, inputs, options));
}

interface ChatInputs {
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly unknown[] | undefined;
  readonly kwargs: Readonly<Record<string, unknown>> | undefined;
}

/** The rendered template; special-token text of the inputs is still marked. */
function render(template: ChatTemplate, data: ProtectedText, inputs: ChatInputs, options: ChatPromptOptions): string {
  const { continueFinalMessage = false, addGenerationPrompt = !continueFinalMessage } = options;
  if (continueFinalMessage && addGenerationPrompt) {
    throw new ChatTemplateError("Cannot continue the final message and open a new turn at once: set one of the two");
  }
  const messages = data.protect(inputs.messages) as ChatMessage[];
  const templateOptions: ChatTemplateOptions = {
    addGenerationPrompt,
    ...(inputs.tools === undefined ? {} : { tools: data.protect(inputs.tools) as unknown[] }),
    ...(inputs.kwargs === undefined ? {} : { kwargs: data.protect(inputs.kwargs) as Record<string, unknown> }),
  };
  if (!continueFinalMessage) return template.render(messages, templateOptions);
  const rendered = template.render(markEnd(messages, data.sentinel), templateOptions);
  const end = rendered.lastIndexOf(data.sentinel);
  if (end < 0) throw new ChatTemplateError("Cannot continue the final message: the chat template does not write its content");
  return rendered.slice(0, end);
}

/** Puts the sentinel behind the last message's text. */
function markEnd(messages: readonly ChatMessage[], sentinel: string): ChatMessage[] {
  const last = messages.at(-1);
  if (last?.["role"] !== "assistant") {
    throw new ChatTemplateError(
      `Cannot continue the final message: its role is ${JSON.stringify(last?.["role"] ?? null)} instead of "assistant"`,
    );
  }
  return [...messages.slice(0, -1), { ...last, content: markContent(last["content"], sentinel) }];
}

function markContent(content: unknown, sentinel: string): unknown {
  if (!Array.isArray(content)) return `${content ?? ""}${sentinel}`;
  const index = content.findLastIndex((part) => typeof part?.text === "string");
  if (index < 0) return [...content, { type: "text", text: sentinel }];
  return content.with(index, { ...content[index], text: `${content[index].text}${sentinel}` });
}

/**
 * Clients send the arguments of earlier tool calls as JSON text; templates print them as objects. Text that is no JSON object stays text.
 * Missing content is empty, but beside tool calls, where templates ask whether it is none.
 */
function normalized(message: ChatMessage): ChatMessage {
  const calls = message["tool_calls"];
  if (!Array.isArray(calls)) return (message["content"] ?? null) === null ? { ...message, content: "" } : message;
  return {
    ...message,
    tool_calls: calls.map((call) => {
      const parsed = parseObject(call?.function?.arguments);
      return parsed === null ? call : { ...call, function: { ...call.function, arguments: parsed } };
    }),
  };
}

function parseObject(text: unknown): Record<string, unknown> | null {
  if (typeof text !== "string") return null;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value as Record<string, unknown> : null;
  } catch {
    return null;
  }
}
