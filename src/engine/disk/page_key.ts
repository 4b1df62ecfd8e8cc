/** Names of pages on the disk: hashes over everything that a page's content depends on, but for the model, which has a folder of its own. */
import { createHash } from "node:crypto";

/** What all keys of a salt begin with. */
export function rootKey(salt: string, pageTokens: number): string {
  return createHash("sha256").update(`rowlock prefix of ${pageTokens}\0${salt}`).digest("hex");
}

/** The key of the page behind that of `parentKey`. `tokens`: as `PrefixCache.keyOf` spells them. */
export function childKey(parentKey: string, tokens: string): string {
  // Not as a text: halves of surrogate pairs would all be encoded as the same character.
  const units = Uint16Array.from({ length: tokens.length }, (_, i) => tokens.charCodeAt(i));
  return createHash("sha256").update(parentKey).update(new Uint8Array(units.buffer)).digest("hex");
}
