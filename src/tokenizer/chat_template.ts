/** Messages to prompt text, with the model's own Jinja template. */
export interface ChatTemplate {
  readonly source: string;
  /** @throws {ChatTemplateError} when the template refuses the messages. */
  render(messages: readonly Record<string, unknown>[], options: ChatTemplateOptions): string;
}

export interface ChatTemplateOptions {
  readonly addGenerationPrompt: boolean;
  readonly tools?: readonly unknown[];
  /** Extra variables; names of the template's own inputs are refused before. */
  readonly kwargs?: Readonly<Record<string, unknown>>;
}

export class ChatTemplateError extends Error {
  override name = "ChatTemplateError";
}
