/** How tokens are named in logprobs: their text, and the bytes that it stands for. */
import type { Tokenizer } from "../tokenizer/tokenizer.ts";

export interface TokenName {
  /** The text; for bytes that are no text alone, `bytes:\xf0\x9f` as OpenAI names them, so that two such tokens have two names. */
  readonly token: string;
  /** Concatenated over an answer, the bytes are the answer's; a control token has none. */
  readonly bytes: readonly number[];
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @param tokenizer null: tokens are named by their ids. */
export function nameToken(tokenizer: Tokenizer | null, id: number): TokenName {
  if (tokenizer === null) return { token: `token_id:${id}`, bytes: [] };
  const bytes = tokenizer.tokenBytes(id);
  if (bytes.length === 0) return { token: tokenizer.decode([id], { keepSpecial: true }), bytes: [] };
  try {
    return { token: decoder.decode(bytes), bytes: [...bytes] };
  } catch {
    const escaped = Array.from(bytes, (byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
    return { token: `bytes:${escaped}`, bytes: [...bytes] };
  }
}
