import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { readGguf } from "../../src/models/gguf.ts";
import { tokenizerFromGguf } from "../../src/tokenizer/gguf_vocabulary.ts";
import { HfTokenizer } from "../../src/tokenizer/hf_tokenizer.ts";
import { TokenizerError } from "../../src/tokenizer/tokenizer_json.ts";
import { modelTest } from "../test_model.ts";
import { FIRST_SPECIAL_ID, makeTinyTokenizer, readFixture, SPECIAL_CONTENTS, tinyTokenizerJson } from "./tiny_tokenizers.ts";

interface ParityFixture {
  readonly cases: { readonly text: string; readonly ids: number[]; readonly decoded: string }[];
}

modelTest("SmolLM2's vocabulary gives the ids and texts of the Rust tokenizer on awkward strings", (path) => {
  const files = tokenizerFromGguf(readGguf(path).metadata);
  const tokenizer = new HfTokenizer(files.tokenizerJson, files.tokenizerConfig, files);
  const { cases } = readFixture<ParityFixture>("smollm2.json");
  assert(cases.length > 200);
  for (const { text, ids, decoded } of cases) {
    assertEquals(tokenizer.encode(text, { parseSpecial: true }), ids, `ids of ${JSON.stringify(text)}`);
    assertEquals(tokenizer.decode(ids, { keepSpecial: true }), decoded, `text of ${JSON.stringify(text)}`);
  }
  assertEquals([tokenizer.vocabSize, tokenizer.bosId, tokenizer.eosId], [49152, 1, 2]);
});

Deno.test("Special-token text is data unless the caller asks for parsing", () => {
  const tokenizer = makeTinyTokenizer();
  const text = "a<|im_end|>b";
  const data = tokenizer.encode(text);
  assert(data.every((id) => !tokenizer.isSpecial(id)), `found ${data}`);
  assertEquals(tokenizer.decode(data), text);
  assertEquals(tokenizer.encode(text, { parseSpecial: true }), [97, FIRST_SPECIAL_ID + 1, 98]);
});

Deno.test("No text without parsing ever gives a special id, and every text comes back", () => {
  const tokenizer = makeTinyTokenizer();
  const piece = fc.oneof(fc.constantFrom(...SPECIAL_CONTENTS, "<think>", "<|", "|>"), fc.string({ unit: "binary" }));
  fc.assert(fc.property(fc.array(piece), (pieces) => {
    const text = pieces.join("");
    const ids = tokenizer.encode(text);
    assert(ids.every((id) => !tokenizer.isSpecial(id)));
    assertEquals(tokenizer.decode(ids), text.toWellFormed());
  }));
});

Deno.test("A word of a vocabulary that ignores merges cannot become the special token of the same text", () => {
  const json = tinyTokenizerJson();
  const model = json["model"] as Record<string, unknown>;
  const tokenizer = new HfTokenizer({
    ...json,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, use_regex: false },
    model: { ...model, vocab: { ...model["vocab"] as object, "<bos>": FIRST_SPECIAL_ID + 2 }, ignore_merges: true },
  });
  assertEquals(tokenizer.encode("<bos>"), [..."<bos>"].map((character) => character.charCodeAt(0)));
});

Deno.test("A unigram vocabulary spells special-token text with other pieces", () => {
  const pieces: [string, number][] = [["<unk>", 0], ["<s>", 0], ["<", -2], ["s", -2], [">", -2], ["\u2581", -2]];
  const tokenizer = new HfTokenizer({
    added_tokens: [{ id: 0, content: "<unk>", special: true }, { id: 1, content: "<s>", special: true }],
    pre_tokenizer: { type: "Metaspace", prepend_scheme: "never", split: false },
    decoder: { type: "Metaspace", prepend_scheme: "never" },
    model: { type: "Unigram", vocab: pieces, unk_id: 0 },
  });
  assertEquals(tokenizer.encode("<s>"), [2, 3, 4]);
  assertEquals(tokenizer.encode("<s>", { parseSpecial: true }), [1]);
  assertEquals(tokenizer.encode("<unk>").includes(1), false);
  assertEquals(tokenizer.encode("é"), [0]);
  assertEquals(tokenizer.encode("\udc001:<s>").includes(1), false);
});

Deno.test("Special tokens have no bytes, other added tokens are literal text", () => {
  const tokenizer = makeTinyTokenizer();
  assertEquals(tokenizer.tokenBytes(FIRST_SPECIAL_ID), new Uint8Array(0));
  assertEquals(new TextDecoder().decode(tokenizer.tokenBytes(260)), "<think>");
  assertEquals(tokenizer.tokenBytes(0xf0), Uint8Array.of(0xf0));
  assertEquals(tokenizer.tokenBytes(100_000), new Uint8Array(0));
  assertEquals(tokenizer.encode("<think>"), [260]);
});

Deno.test("Decoding leaves special tokens out unless they are wanted, and marks broken UTF-8", () => {
  const tokenizer = makeTinyTokenizer();
  const ids = [FIRST_SPECIAL_ID, 104, 105, FIRST_SPECIAL_ID + 1];
  assertEquals(tokenizer.decode(ids), "hi");
  assertEquals(tokenizer.decode(ids, { keepSpecial: true }), "<|im_start|>hi<|im_end|>");
  assertEquals(tokenizer.decode([0xf0, 0x9f]), "\ufffd");
  assertEquals(tokenizer.decode([]), "");
  assertEquals(tokenizer.decode([0xef, 0xbb, 0xbf, 65]), "\ufeffA");
});

Deno.test("A BOS is added on request and not doubled", () => {
  const tokenizer = makeTinyTokenizer({ addBos: true });
  const bos = FIRST_SPECIAL_ID + 2;
  assertEquals(tokenizer.encode("a"), [97]);
  assertEquals(tokenizer.encode("a", { addSpecial: true }), [bos, 97]);
  assertEquals(tokenizer.encode("<bos>a", { addSpecial: true, parseSpecial: true }), [bos, 97]);
  assertEquals(tokenizer.encode("", { addSpecial: true }), [bos]);
  assertEquals(makeTinyTokenizer().encode("a", { addSpecial: true }), [97]);
});

Deno.test("The post-processor's template decides about a BOS when tokenizer_config.json does not", () => {
  const template = {
    type: "Sequence",
    processors: [{ type: "ByteLevel" }, {
      type: "TemplateProcessing",
      single: [{ SpecialToken: { id: "<bos>" } }, { Sequence: { id: "A" } }, { SpecialToken: { id: "<|im_end|>" } }],
      special_tokens: { "<bos>": { ids: [258] }, "<|im_end|>": { ids: [257] } },
    }],
  };
  const json = { ...tinyTokenizerJson(), post_processor: template };
  assertEquals(new HfTokenizer(json).encode("a", { addSpecial: true }), [258, 97, 257]);
  assertEquals(new HfTokenizer(json, { add_bos_token: false }).encode("a", { addSpecial: true }), [97, 257]);
});

Deno.test("White space behind a token that strips is not encoded when it is parsed, and kept in data", () => {
  const tokenizer = makeTinyTokenizer();
  assertEquals(tokenizer.encode("<|end|> \n a", { parseSpecial: true }), [259, 97]);
  assertEquals(tokenizer.decode(tokenizer.encode("<|end|> \n a")), "<|end|> \n a");
});

Deno.test("tokenizer_config.json can name special tokens that tokenizer.json does not mark", () => {
  const json = tinyTokenizerJson();
  assertEquals(new HfTokenizer(json, { additional_special_tokens: ["<think>"] }).isSpecial(260), true);
  assertEquals(new HfTokenizer(json, { added_tokens_decoder: { 260: { content: "<think>", special: true } } }).isSpecial(260), true);
  assertEquals(new HfTokenizer(json).isSpecial(260), false);
});

Deno.test("A first text gets a space where the vocabulary wants one, a continuation does not", () => {
  const json = {
    ...tinyTokenizerJson(),
    pre_tokenizer: { type: "Metaspace", prepend_scheme: "first", split: false },
    decoder: { type: "Metaspace", prepend_scheme: "first" },
    model: { type: "BPE", vocab: { "\u2581": 0, a: 1 }, merges: [] },
  };
  const tokenizer = new HfTokenizer(json);
  assertEquals(tokenizer.encode("a a"), [0, 1, 0, 1]);
  assertEquals(tokenizer.encode(" a"), [0, 1]);
  assertEquals(tokenizer.encode("a", { isContinuation: true }), [1]);
  assertEquals(tokenizer.encode("<bos>a", { parseSpecial: true }), [258, 1]);
  assertEquals(tokenizer.stripsLeadingSpace, true);
  assertEquals(tokenizer.decode([0, 1, 0, 1]), "a a");
});

Deno.test("What cannot be reproduced is refused by name", () => {
  const json = tinyTokenizerJson();
  const refuse = (change: Record<string, unknown>, message: string): void => {
    assertThrows(() => new HfTokenizer({ ...json, ...change }), TokenizerError, message);
  };
  refuse({ model: { type: "WordPiece", vocab: {} } }, "Unsupported tokenizer model: WordPiece; supported are BPE and Unigram");
  refuse({ model: { type: "BPE", vocab: { a: -1 }, merges: [] } }, "must map tokens to ids");
  refuse({ model: { type: "BPE", vocab: { a: 1 }, merges: ["ab"] } }, "must be pairs");
  refuse({ decoder: { type: "WordPiece" } }, "Unsupported token decoder");
  refuse({ pre_tokenizer: { type: "Split", pattern: { String: " " }, behavior: "Sideways" } }, "sideways; supported are Isolated");
  refuse({ added_tokens: [{ id: "1", content: "x" }] }, "added_tokens.0.id");
});
