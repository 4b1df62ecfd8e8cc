/**
 * Keys that no text can match. Special tokens have to stay in the vocabulary of the plain tokenizer (ids must not shift, and the model's unknown
 * token must exist), but text that looks like one must not become one: so they get a key with a lone surrogate, which well-formed text never has.
 */
const HIDDEN = "\udc00";

export function hideToken(id: number, content: string): string {
  return `${HIDDEN}${id}:${content}`;
}

/** The token that was hidden, or the token itself. */
export function revealToken(token: string): string {
  return token.startsWith(HIDDEN) ? token.slice(token.indexOf(":") + 1) : token;
}
