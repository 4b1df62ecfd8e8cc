/** A person at a terminal, or text from a pipe. */
import process from "node:process";
import { createInterface, type Interface } from "node:readline";

/** Ctrl-C in place of a line. */
export const INTERRUPTED: unique symbol = Symbol("interrupted");

export interface ChatTerminal {
  /** Whether a person reads along: a pipe gets no prompts. */
  readonly isInteractive: boolean;
  /** The next line; null at the end of the input. */
  readLine(prompt: string): Promise<string | null | typeof INTERRUPTED>;
  write(text: string): void;
  /** Called for Ctrl-C while no line is read; null for nobody. */
  onInterrupt: (() => void) | null;
  close(): void;
}

/** Standard input and output. On a terminal lines can be edited and earlier ones come back with the arrow keys. */
export class ProcessTerminal implements ChatTerminal {
  readonly isInteractive = Deno.stdin.isTerminal();
  onInterrupt: (() => void) | null = null;
  readonly #interface: Interface;
  /** Lines that came before anybody asked: typed during an answer, or pasted. */
  readonly #early: string[] = [];
  #waiting: ((line: string | null | typeof INTERRUPTED) => void) | null = null;
  #isEnded = false;
  /** Nobody reads the output any more. */
  #isUnread = false;
  readonly #interrupt = (): void => {
    if (this.#waiting === null) return this.onInterrupt?.();
    // What was typed so far is taken back.
    if (this.isInteractive) this.#interface.write(null, { ctrl: true, name: "u" });
    this.write("\n");
    this.#give(INTERRUPTED);
  };

  /** `| head` has had enough: the answer stops and the conversation ends, as at the end of the input. */
  readonly #outputFailed = (error: Error & { readonly code?: string }): void => {
    if (error.code !== "EPIPE") throw error;
    this.#isUnread = true;
    this.#isEnded = true;
    this.#early.length = 0;
    this.onInterrupt?.();
    this.#give(null);
  };

  constructor() {
    this.#interface = createInterface({ input: process.stdin, output: process.stdout, terminal: this.isInteractive });
    this.#interface.on("line", (line: string) => this.#waiting === null ? this.#early.push(line) : this.#give(line));
    this.#interface.on("close", () => {
      this.#isEnded = true;
      this.#give(null);
    });
    process.stdout.on("error", this.#outputFailed);
    // A raw terminal sends Ctrl-C as a key, a pipe's process gets the signal.
    if (this.isInteractive) this.#interface.on("SIGINT", this.#interrupt);
    Deno.addSignalListener("SIGINT", this.#interrupt);
  }

  readLine(prompt: string): Promise<string | null | typeof INTERRUPTED> {
    const early = this.#early.shift();
    if (early !== undefined || this.#isEnded) return Promise.resolve(early ?? null);
    if (this.isInteractive) {
      this.#interface.setPrompt(prompt);
      this.#interface.prompt();
    }
    return new Promise((resolve) => this.#waiting = resolve);
  }

  write(text: string): void {
    if (!this.#isUnread) process.stdout.write(text);
  }

  close(): void {
    // A failure of what was written last comes after it, so that listener stays.
    Deno.removeSignalListener("SIGINT", this.#interrupt);
    this.#interface.close();
  }

  #give(line: string | null | typeof INTERRUPTED): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.(line);
  }
}
