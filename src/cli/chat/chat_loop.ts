/** A conversation at a terminal: read, do or ask, show, until there is no more. */
import { type AskModel, ChatError, type ChatMessage } from "./chat_client.ts";
import { didYouMean } from "../did_you_mean.ts";
import { ChatSettings, SETTING_NAMES, SettingError, wantedValue } from "./chat_settings.ts";
import { type ChatTerminal, INTERRUPTED } from "./chat_terminal.ts";

const PROMPT = ">>> ";
const PROMPT_WITHIN = "... ";
const QUOTES = '"""';
const DIM = "\x1b[2m";
const PLAIN = "\x1b[0m";

const HELP = `/set NAME VALUE   a setting of the answers, as /set temperature 0.7; /set alone shows what is set
/unset NAME       back to the model's own
/system TEXT      instructions for the model; /system alone takes them away
/clear            forget the conversation
/bye              end (/quit, /exit and Ctrl-D too)
${QUOTES}               begins and ends a text of several lines
Ctrl-C            stops an answer
`;

const COMMANDS = ["help", "set", "unset", "system", "clear", "bye", "quit", "exit"];
/** Whatever stands behind it. */
const END = /^\/(bye|quit|exit)(\s|$)/;

/** What people type who want to leave, and no question to anybody. */
const WORD_TO_END = /^(quit|exit)\s*$/;

const BEGIN_ANEW = "/clear begins a new conversation";

export interface ChatLoopOptions {
  readonly system: string | null;
  /** What `/set` shows at the beginning. @default nothing */
  readonly settings?: Readonly<Record<string, unknown>>;
}

/** What to do in place of a command that there is not: a setting wants /set before it. */
function meantCommand(name: string): string {
  if (SETTING_NAMES.includes(name)) return `; there is ${wantedValue(name)}`;
  return didYouMean(`/${name}`, COMMANDS.map((command) => `/${command}`)) || "; /help shows all";
}

/** Every further question would be refused, too, when the context is full; what to leave out is for the person to say. */
function describeError({ message, code }: ChatError, hasHistory: boolean): string {
  if (code !== "context_length_exceeded") return message;
  const fault = hasHistory ? `The conversation no longer fits the context; ${BEGIN_ANEW}` : "The message does not fit the context";
  return `${fault}\n(${message})`;
}

/** Text between quotes is never a command. */
interface Quoted {
  readonly quoted: string;
}

export class ChatLoop {
  readonly settings: ChatSettings;
  readonly #terminal: ChatTerminal;
  readonly #ask: AskModel;
  #system: string | null;
  #history: ChatMessage[] = [];

  constructor(terminal: ChatTerminal, ask: AskModel, { system, settings }: ChatLoopOptions) {
    this.settings = new ChatSettings(settings);
    this.#terminal = terminal;
    this.#ask = ask;
    this.#system = system;
  }

  /** The conversation as the model gets it. */
  get messages(): readonly ChatMessage[] {
    const system = this.#system;
    return [...(system === null ? [] : [{ role: "system", content: system } as const]), ...this.#history];
  }

  /** Ends with the input, with /bye, or with a second Ctrl-C at the prompt. */
  async run(): Promise<void> {
    let wasInterrupted = false;
    while (true) {
      const text = await this.#readMessage();
      if (text === null || typeof text === "string" && END.test(text)) return;
      if (text === INTERRUPTED) {
        if (wasInterrupted) return;
        wasInterrupted = true;
        this.#terminal.write("Ctrl-C again, or /bye, ends\n");
        continue;
      }
      wasInterrupted = false;
      if (typeof text === "string" && WORD_TO_END.test(text)) {
        const word = text.trimEnd();
        this.#terminal.write(`/${word} ends; ${QUOTES}${word}${QUOTES} says it to the model\n`);
        continue;
      }
      if (typeof text !== "string") await this.#answer(text.quoted);
      else if (text.startsWith("/")) this.#runCommand(text);
      else await this.#answer(text);
    }
  }

  /** One line, or all lines between two `"""`. */
  async #readMessage(): Promise<string | Quoted | null | typeof INTERRUPTED> {
    const first = await this.#terminal.readLine(PROMPT);
    if (typeof first !== "string") return first;
    if (!first.trimStart().startsWith(QUOTES)) return first.startsWith("/") ? first.trim() : first;
    const lines = [first.trimStart().slice(QUOTES.length)];
    while (!lines.at(-1)!.trimEnd().endsWith(QUOTES)) {
      const line = await this.#terminal.readLine(PROMPT_WITHIN);
      if (typeof line !== "string") return line;
      lines.push(line);
    }
    lines.push(lines.pop()!.trimEnd().slice(0, -QUOTES.length));
    // The quotes' own lines are no part of the text.
    return { quoted: lines.join("\n").replace(/^\n|\n$/g, "") };
  }

  #runCommand(line: string): void {
    const [, name = "", rest = ""] = /^\/(\S*)\s*([^]*)$/.exec(line) ?? [];
    try {
      this.#terminal.write(this.#doCommand(name, rest));
    } catch (error) {
      if (!(error instanceof SettingError)) throw error;
      this.#terminal.write(`${error.message}\n`);
    }
  }

  /** @returns what is said about it. */
  #doCommand(name: string, rest: string): string {
    switch (name) {
      case "help":
      case "?":
        return `${HELP}\nSet now:\n${this.#describeSettings()}`;
      case "set":
        return this.#set(rest);
      case "unset":
        if (rest === "") throw new SettingError(`/unset NAME needs a name; set now:\n${this.#describeSettings().trimEnd()}`);
        this.settings.unset(rest);
        return "";
      case "system":
        this.#system = rest === "" ? null : rest;
        return "";
      case "clear":
        if (rest !== "") throw new SettingError(`/clear takes nothing behind it and forgets the whole conversation; found "${rest}"`);
        this.#history = [];
        return "";
      default:
        throw new SettingError(`There is no command /${name}${meantCommand(name)}`);
    }
  }

  #set(rest: string): string {
    const [, name, value] = /^([^\s=]+)(?:\s*=\s*|\s+)(\S[^]*)$/.exec(rest) ?? [];
    if (name !== undefined && value !== undefined) {
      this.settings.set(name, value.trim());
      return "";
    }
    if (rest !== "") throw new SettingError(`/set ${rest} has no value; write ${wantedValue(rest.split(/[=:]/)[0]!)}`);
    return this.#describeSettings();
  }

  #describeSettings(): string {
    const lines = Object.entries(this.settings.fields).map(([key, set]) =>
      `${key} ${typeof set === "bigint" ? set : JSON.stringify(set)}\n`
    );
    return lines.length === 0 ? "Nothing is set: the model's own settings count\n" : lines.join("");
  }

  /** An answer that was stopped stays in the conversation as far as it came; a question that failed does not. */
  async #answer(text: string): Promise<void> {
    if (text.trim() === "") return;
    const stop = new AbortController();
    this.#terminal.onInterrupt = (): void => stop.abort();
    const before = this.#history;
    this.#history = [...before, { role: "user", content: text }];
    try {
      const content = await this.#showAnswer(stop.signal);
      this.#history = content === "" ? before : [...this.#history, { role: "assistant", content }];
    } catch (error) {
      this.#history = before;
      if (!(error instanceof ChatError)) throw error;
      this.#terminal.write(`\n${describeError(error, before.length > 0)}\n`);
    } finally {
      this.#terminal.onInterrupt = null;
    }
  }

  /** @returns the text of the answer. */
  async #showAnswer(signal: AbortSignal): Promise<string> {
    let content = "";
    let isDim = false;
    let isCut = false;
    const show = (piece: string, isReasoning: boolean): void => {
      const style = isReasoning === isDim || !this.#terminal.isInteractive ? "" : isReasoning ? DIM : `${PLAIN}\n`;
      isDim = isReasoning;
      this.#terminal.write(`${style}${piece}`);
    };
    for await (const part of this.#ask(this.messages, this.settings.fields, signal)) {
      if (part.text !== "") show(part.text, part.isReasoning);
      if (!part.isReasoning) content += part.text;
      isCut ||= part.finishReason === "length";
    }
    if (isDim) show("", false);
    this.#terminal.write(signal.aborted ? "\n(stopped)\n" : isCut ? `\n(cut: ${this.#whyCut()})\n` : "\n");
    return content;
  }

  #whyCut(): string {
    const isLimited = Object.hasOwn(this.settings.fields, "max_tokens");
    return isLimited ? "max_tokens or the context's end was reached" : `the context is full; ${BEGIN_ANEW}`;
  }
}
