/** Bytes of `text` in UTF-8; half a surrogate pair counts as the character that replaces it. */
export function utf8Length(text: string): number {
  let numBytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code >= 0x80) numBytes++;
    // Each half of a pair is two of the pair's four bytes.
    if (code >= 0x800 && (code < 0xd800 || code > 0xdfff)) numBytes++;
  }
  return numBytes;
}
