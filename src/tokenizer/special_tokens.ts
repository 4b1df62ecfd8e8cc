/** Special tokens: which ones a tokenizer.json has, and where they occur in a text. */
import type { SpecialToken } from "./tokenizer.ts";
import type { TokenizerConfig, TokenizerJson } from "./tokenizer_json.ts";

/** A piece of text, or a special token that was found in it. */
export type TextPart = { readonly text: string } | { readonly special: SpecialToken };

/**
 * Special tokens by either file: tokenizer.json marks them, tokenizer_config.json may name more (older Gemma files mark their turn tokens
 * only there).
 */
export function collectSpecialTokens(json: TokenizerJson, config: TokenizerConfig): SpecialToken[] {
  const named = new Set<string | null>([config.bos_token, config.eos_token, config.unk_token, config.pad_token]);
  for (const token of config.additional_special_tokens) named.add(token);
  for (const token of Object.values(config.added_tokens_decoder ?? {})) if (token.special) named.add(token.content);
  const special = new Map<string, SpecialToken>();
  for (const token of json.added_tokens) {
    if (!token.special && !named.has(token.content)) continue;
    special.set(token.content, {
      id: token.id,
      content: token.content,
      stripsLeft: token.lstrip ?? false,
      stripsRight: token.rstrip ?? false,
    });
  }
  return [...special.values()];
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
}

/** Finds special tokens in text: leftmost first, the longest of those that start at the same place. */
export class SpecialTokenSplitter {
  readonly #byContent: ReadonlyMap<string, SpecialToken>;
  readonly #pattern: RegExp | null;

  constructor(tokens: readonly SpecialToken[]) {
    this.#byContent = new Map(tokens.map((token) => [token.content, token]));
    const longestFirst = [...this.#byContent.keys()].sort((a, b) => b.length - a.length);
    this.#pattern = longestFirst.length > 0 ? new RegExp(longestFirst.map(escapeRegExp).join("|"), "g") : null;
  }

  /** The parts of `text` in order, without empty ones. Tokens that strip take the white space beside them away. */
  split(text: string): TextPart[] {
    if (this.#pattern === null) return text === "" ? [] : [{ text }];
    const parts: TextPart[] = [];
    let start = 0;
    let isStripping = false;
    const pushText = (end: number, stripsEnd: boolean): void => {
      let plain = text.slice(start, end);
      if (isStripping) plain = plain.trimStart();
      if (stripsEnd) plain = plain.trimEnd();
      if (plain !== "") parts.push({ text: plain });
    };
    for (const match of text.matchAll(this.#pattern)) {
      const special = this.#byContent.get(match[0])!;
      pushText(match.index, special.stripsLeft);
      parts.push({ special });
      start = match.index + match[0].length;
      isStripping = special.stripsRight;
    }
    pushText(text.length, false);
    return parts;
  }
}
