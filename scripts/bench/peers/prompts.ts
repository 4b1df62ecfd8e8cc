/** Prompts of a wanted number of tokens. All servers get the same texts; no two prompts begin alike unless they are asked to. */
import type { ChatTemplate } from "../../../src/tokenizer/chat_template.ts";
import type { Tokenizer } from "../../../src/tokenizer/tokenizer.ts";
import { uniform } from "./arrivals.ts";

const WORDS = ("river stone garden winter letter captain bridge morning silver window market harbour candle forest engine painter island " +
  "station kitchen shadow mountain teacher village ribbon thunder orchard compass feather lantern meadow pocket journey").split(" ");
const TASK = " Now write a long and detailed story with all of these words, and describe every person and place in it.";

export class PromptMaker {
  readonly #numFixedTokens: number;

  constructor(readonly tokenizer: Pick<Tokenizer, "encode" | "decode">, template: Pick<ChatTemplate, "render">) {
    const frame = template.render([{ role: "user", content: TASK }], { addGenerationPrompt: true });
    this.#numFixedTokens = tokenizer.encode(frame, { parseSpecial: true }).length;
  }

  /**
   * The user's message of a chat that has about `numTokens` tokens in all: a few more or less, as words fall. Equal seeds give equal texts.
   * @param prefix stands before the words and counts.
   */
  message(numTokens: number, seed: number, prefix = ""): string {
    const numPrefix = prefix === "" ? 0 : this.tokenizer.encode(prefix).length;
    return `${prefix}${this.words(Math.max(1, numTokens - this.#numFixedTokens - numPrefix), seed)}.${TASK}`;
  }

  /** About `numTokens` tokens of words. */
  words(numTokens: number, seed: number): string {
    const random = uniform(seed);
    const text = Array.from({ length: numTokens }, () => WORDS[Math.floor(random() * WORDS.length)]).join(" ");
    return this.tokenizer.decode(this.tokenizer.encode(text).slice(0, numTokens));
  }
}
