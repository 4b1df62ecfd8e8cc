/** Logprobs in the two shapes of OpenAI's protocol. */
import type { TokenLogprob } from "../engine/messages.ts";
import { Detokenizer } from "../tokenizer/detokenizer.ts";
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import type { AnswerToken } from "./choice_text.ts";
import type { ChatLogprob, CompletionLogprobs } from "./schemas/responses.ts";
import { nameToken } from "./token_names.ts";

/** JSON has no infinity; this is what OpenAI sends for "as good as impossible". */
const LOWEST_LOGPROB = -9999;

function finite(logprob: number): number {
  return Math.max(LOWEST_LOGPROB, logprob);
}

/** The entries of `logprobs.content`, one per token. */
export function chatLogprobs(tokenizer: Tokenizer | null, tokens: readonly AnswerToken[]): ChatLogprob[] {
  return tokens.flatMap(({ id, logprob }) => logprob === null ? [] : [chatLogprob(tokenizer, id, logprob)]);
}

function chatLogprob(tokenizer: Tokenizer | null, id: number, { logprob, top }: TokenLogprob): ChatLogprob {
  const named = (token: number, value: number): Omit<ChatLogprob, "top_logprobs"> => {
    const name = nameToken(tokenizer, token);
    return { token: name.token, logprob: finite(value), bytes: [...name.bytes] };
  };
  return { ...named(id, logprob), top_logprobs: top.map((other) => named(other.token, other.logprob)) };
}

/** The legacy shape: four lists side by side. */
export class CompletionLogprobsBuilder {
  readonly #tokenizer: Tokenizer | null;
  readonly #numTop: number;
  /** Characters before the next token, the echoed prompt's included. */
  #offset = 0;
  /** UTF-16 units of the answer that `#offset` has counted. */
  #numCounted = 0;

  /** @param numTop alternatives that the request asked for. */
  constructor(tokenizer: Tokenizer | null, numTop: number) {
    this.#tokenizer = tokenizer;
    this.#numTop = numTop;
  }

  /** The tokens of an echoed prompt; the first has no logprob. `text` is the prompt as the answer shows it. */
  prompt(ids: readonly number[], logprobs: readonly (TokenLogprob | null)[], text: string): CompletionLogprobs {
    const lists = emptyLists();
    const tokenizer = this.#tokenizer;
    const detokenizer = tokenizer === null ? null : new Detokenizer(tokenizer);
    let end = 0;
    let offset = 0;
    ids.forEach((id, i) => {
      this.#append(lists, id, logprobs[i] ?? null, offset);
      if (tokenizer === null || detokenizer === null) return;
      const piece = tokenizer.isSpecial(id) ? tokenizer.decode([id], { keepSpecial: true }) : detokenizer.push(id);
      // A BOS that the tokenizer put in front is a token of the prompt and no part of its text.
      if (tokenizer.isSpecial(id) && !text.startsWith(piece, end)) return;
      end += piece.length;
      offset += numCodePoints(piece);
    });
    this.#offset = numCodePoints(text);
    return lists;
  }

  /** @param answer the whole answer so far, which `start` of the tokens refers to. */
  answer(tokens: readonly AnswerToken[], answer: string): CompletionLogprobs {
    const lists = emptyLists();
    for (const { id, start, logprob } of tokens) {
      this.#offset += numCodePoints(answer.slice(this.#numCounted, start));
      this.#numCounted = start;
      this.#append(lists, id, logprob, this.#offset);
    }
    return lists;
  }

  #append(lists: CompletionLogprobs, id: number, logprob: TokenLogprob | null, offset: number): void {
    const { token } = nameToken(this.#tokenizer, id);
    lists.tokens.push(token);
    lists.token_logprobs.push(logprob === null ? null : finite(logprob.logprob));
    lists.text_offset.push(offset);
    lists.top_logprobs.push(logprob === null || this.#numTop === 0 ? null : this.#top(token, logprob));
  }

  /** Alternatives by name; the chosen token is added when it is not among them, as OpenAI does. */
  #top(chosen: string, { logprob, top }: TokenLogprob): Record<string, number> {
    const named = new Map<string, number>();
    for (const other of [...top, null]) {
      const name = other === null ? chosen : nameToken(this.#tokenizer, other.token).token;
      // Two tokens may have one text; the likelier one comes first and keeps the name.
      if (!named.has(name)) named.set(name, finite(other === null ? logprob : other.logprob));
    }
    return Object.fromEntries(named);
  }
}

function emptyLists(): CompletionLogprobs {
  return { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
}

/** Offsets count characters as Python does: the field's readers slice Python strings. */
function numCodePoints(text: string): number {
  let numSurrogatePairs = 0;
  for (let i = 0; i < text.length; i++) if ((text.charCodeAt(i) & 0xfc00) === 0xdc00) numSurrogatePairs++;
  return text.length - numSurrogatePairs;
}
