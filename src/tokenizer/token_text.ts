/** From the strings in a vocabulary to the bytes that its tokens stand for. */
import { type TokenizerComponent, TokenizerError } from "./tokenizer_json.ts";

const utf8 = new TextEncoder();

/** How a vocabulary spells bytes and spaces, read from the decoder of tokenizer.json. */
export interface TokenSpelling {
  readonly isByteLevel: boolean;
  /** `<0x0A>` is one byte. */
  readonly hasByteTokens: boolean;
  /** Text replacements in every token, such as "▁" to " ". */
  readonly replacements: readonly (readonly [from: string, to: string])[];
  readonly stripsLeadingSpace: boolean;
}

/** @throws {TokenizerError} for decoders whose tokens do not stand for bytes on their own. */
export function readSpelling(decoder: TokenizerComponent | null): TokenSpelling {
  let spelling: TokenSpelling = { isByteLevel: false, hasByteTokens: false, replacements: [], stripsLeadingSpace: false };
  for (const node of decoder === null ? [] : flatten(decoder)) spelling = { ...spelling, ...readDecoder(node, spelling) };
  return spelling;
}

function flatten(node: TokenizerComponent): TokenizerComponent[] {
  return node.type === "Sequence" ? ((node["decoders"] ?? []) as TokenizerComponent[]).flatMap(flatten) : [node];
}

function readDecoder(node: TokenizerComponent, before: TokenSpelling): Partial<TokenSpelling> {
  switch (node.type) {
    case "ByteLevel":
      return { isByteLevel: true };
    case "ByteFallback":
      return { hasByteTokens: true };
    case "Fuse":
      return {};
    case "Metaspace": {
      const strips = node["prepend_scheme"] !== "never" && node["add_prefix_space"] !== false;
      return { replacements: [...before.replacements, [String(node["replacement"] ?? "\u2581"), " "]], stripsLeadingSpace: strips };
    }
    case "Replace": {
      const from = (node["pattern"] as { String?: string } | undefined)?.String;
      if (from !== undefined) return { replacements: [...before.replacements, [from, String(node["content"] ?? "")]] };
      break;
    }
    case "Strip":
      if (node["content"] === " " && Number(node["start"]) <= 1 && !node["stop"]) return { stripsLeadingSpace: node["start"] === 1 };
      break;
  }
  throw new TokenizerError(
    `Unsupported token decoder: ${
      JSON.stringify(node)
    }; supported are ByteLevel, ByteFallback, Fuse, Metaspace, Replace of a string, Strip of one leading space`,
  );
}

/** Marks characters outside the alphabet. */
const NO_BYTE = 0xffff;

/** GPT-2's alphabet by character code: printable Latin-1 characters stand for themselves, the other bytes for characters from U+0100 on. */
const BYTE_OF_CODE: Uint16Array = (() => {
  const isPrintable = (byte: number): boolean => (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  const bytes = new Uint16Array(0x200).fill(NO_BYTE);
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) bytes[isPrintable(byte) ? byte : next++] = byte;
  return bytes;
})();

/** Bytes of an ordinary token. Tokens outside the byte alphabet are literal text, as in the Rust library. */
export function bytesOfToken(token: string, spelling: TokenSpelling): Uint8Array {
  if (spelling.isByteLevel) {
    const bytes = new Uint8Array(token.length);
    for (let i = 0; i < token.length; i++) {
      const byte = BYTE_OF_CODE[token.charCodeAt(i)] ?? NO_BYTE;
      if (byte === NO_BYTE) return utf8.encode(token);
      bytes[i] = byte;
    }
    return bytes;
  }
  if (spelling.hasByteTokens && /^<0x[0-9A-Fa-f]{2}>$/.test(token)) return Uint8Array.of(parseInt(token.slice(3, 5), 16));
  let text = token;
  for (const [from, to] of spelling.replacements) text = text.replaceAll(from, to);
  return utf8.encode(text);
}
