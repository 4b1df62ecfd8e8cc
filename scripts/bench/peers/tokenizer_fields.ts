/** Fields of tokenizer.json that our reader takes defaults for and the Rust library insists on. */

type Json = Record<string, unknown>;

const ADDED_TOKEN = { single_word: false, lstrip: false, rstrip: false };
const BYTE_LEVEL = { add_prefix_space: false, trim_offsets: true, use_regex: true };

export function completeTokenizerJson(tokenizerJson: Json): Json {
  const addedTokens = (tokenizerJson["added_tokens"] ?? []) as readonly Json[];
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    normalizer: null,
    post_processor: null,
    ...tokenizerJson,
    added_tokens: addedTokens.map((token) => ({ ...ADDED_TOKEN, ...token })),
    pre_tokenizer: completeNode(tokenizerJson["pre_tokenizer"]),
    decoder: completeNode(tokenizerJson["decoder"]),
  };
}

/** A pre-tokenizer or decoder and the parts of a sequence. */
function completeNode(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return null;
  const node = value as Json;
  const withParts = { ...node };
  for (const list of ["pretokenizers", "decoders"]) {
    if (Array.isArray(node[list])) withParts[list] = node[list].map(completeNode);
  }
  return node["type"] === "ByteLevel" ? { ...BYTE_LEVEL, ...withParts } : withParts;
}
