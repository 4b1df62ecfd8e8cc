import { Environment, Interpreter, Template } from "@huggingface/jinja";
import { type ChatTemplate, ChatTemplateError, type ChatTemplateOptions } from "./chat_template.ts";
import { strftime } from "./strftime.ts";

/** More than any template counts to; `range(10**9)` would take the memory of the machine. */
const MAX_RANGE = 1 << 16;

const CONSTANTS = { true: true, True: true, false: false, False: false, none: null, None: null } as const;

/** What a template may not be given from outside: its own inputs, functions and constants. */
export const RESERVED_TEMPLATE_NAMES: ReadonlySet<string> = new Set([
  ...Object.keys(CONSTANTS),
  ...["messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token", "unk_token", "pad_token"],
  ...["range", "namespace", "raise_exception", "strftime_now"],
]);

export interface JinjaTemplateOptions {
  /** `bos_token`, `eos_token` and the like, as text. */
  readonly specialTokens?: Readonly<Record<string, string>>;
  /** The clock behind `strftime_now`. */
  readonly now?: () => Date;
}

/** A model's own chat template. */
export class JinjaTemplate implements ChatTemplate {
  readonly source: string;
  readonly #template: Template;
  readonly #specialTokens: Readonly<Record<string, string>>;
  readonly #now: () => Date;

  /** @throws {ChatTemplateError} when the source is no template. */
  constructor(source: string, options: JinjaTemplateOptions = {}) {
    this.source = source;
    this.#specialTokens = options.specialTokens ?? {};
    this.#now = options.now ?? ((): Date => new Date());
    this.#template = guarded("Cannot read the chat template", () => new Template(source));
  }

  render(messages: readonly Record<string, unknown>[], options: ChatTemplateOptions): string {
    const { tools, addGenerationPrompt, kwargs = {} } = options;
    const reserved = Object.keys(kwargs).find((name) => RESERVED_TEMPLATE_NAMES.has(name));
    if (reserved !== undefined) {
      throw new ChatTemplateError(`Cannot set the template variable ${reserved}: the template's own inputs are reserved`);
    }
    const environment = this.#makeEnvironment({
      ...kwargs,
      ...this.#specialTokens,
      messages,
      tools: tools === undefined || tools.length === 0 ? null : tools,
      documents: null,
      add_generation_prompt: addGenerationPrompt,
    });
    return guarded("The chat template refuses the messages", () => {
      const value = new Interpreter(environment).run(this.#template.parsed);
      return String(value.value);
    });
  }

  #makeEnvironment(variables: Readonly<Record<string, unknown>>): Environment {
    const environment = new Environment();
    for (const [name, value] of Object.entries(CONSTANTS)) environment.set(name, value);
    environment.set("raise_exception", (message: unknown) => {
      throw new ChatTemplateError(String(message));
    });
    environment.set("range", range);
    environment.set("strftime_now", (format: unknown) => strftime(this.#now(), String(format)));
    guarded("Cannot give the messages to the chat template", () => {
      for (const [name, value] of Object.entries(variables)) environment.set(name, value);
    });
    return environment;
  }
}

/** Python's `range`. */
function range(...bounds: number[]): number[] {
  const [start, stop, step] = bounds.length < 2 ? [0, bounds[0] ?? 0, 1] : [bounds[0]!, bounds[1]!, bounds[2] ?? 1];
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (!(length <= MAX_RANGE)) throw new ChatTemplateError(`range(${bounds.join(", ")}) has more than ${MAX_RANGE} numbers`);
  return Array.from({ length }, (_, i) => start + i * step);
}

/** The template's own words (raise_exception) stay as they are; everything else that goes wrong in it says what was being done. */
function guarded<T>(action: string, body: () => T): T {
  try {
    return body();
  } catch (error) {
    if (error instanceof ChatTemplateError) throw error;
    throw new ChatTemplateError(`${action}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}
