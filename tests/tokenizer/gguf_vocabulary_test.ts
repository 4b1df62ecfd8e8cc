import { assert, assertEquals, assertThrows } from "@std/assert";
import { tokenizerFromGguf } from "../../src/tokenizer/gguf_vocabulary.ts";
import { HfTokenizer } from "../../src/tokenizer/hf_tokenizer.ts";
import { TokenizerError } from "../../src/tokenizer/tokenizer_json.ts";
import { gguf, makeSentencePieceTokenizer, readFixture, type SentencePieceFixture } from "./tiny_tokenizers.ts";

const fixture = readFixture<SentencePieceFixture>("sentencepiece.json");

Deno.test("A SentencePiece vocabulary gives the ids and texts of SentencePiece itself", () => {
  const tokenizer = makeSentencePieceTokenizer(fixture);
  assert(fixture.cases.length > 100);
  for (const { text, ids, decoded } of fixture.cases) {
    assertEquals(tokenizer.encode(text), ids, `ids of ${JSON.stringify(text)}`);
    assertEquals(tokenizer.decode(ids), decoded, `text of ${JSON.stringify(text)}`);
  }
});

Deno.test("Every stretch between special tokens starts with SentencePiece's space, and only where the file asks for it", () => {
  const [{ ids } = { ids: [] }] = fixture.cases.filter(({ text }) => text === "Hello world");
  const parse = { parseSpecial: true };
  const with_ = makeSentencePieceTokenizer(fixture);
  assertEquals(with_.encode("<s>Hello world</s>Hello world", parse), [fixture.bos, ...ids, fixture.eos, ...ids]);
  assertEquals(with_.encode("Hello world", { addSpecial: true }), [fixture.bos, ...ids]);
  const without = makeSentencePieceTokenizer(fixture, { "tokenizer.ggml.add_space_prefix": false });
  assertEquals(without.encode(" Hello world"), ids);
  assertEquals([with_.stripsLeadingSpace, without.stripsLeadingSpace], [true, false]);
});

Deno.test("Line ends and characters outside the vocabulary become bytes, and typed byte names stay text", () => {
  const tokenizer = makeSentencePieceTokenizer(fixture);
  const newline = fixture.tokens.indexOf("<0x0A>");
  assert(tokenizer.encode("\n").includes(newline));
  assertEquals(tokenizer.encode("<0x0A>").includes(newline), false);
  assertEquals(tokenizer.tokenBytes(newline), Uint8Array.of(10));
});

Deno.test("SentencePiece joins by score, not by id", () => {
  const tokens = ["<unk>", "<s>", "</s>", "a", "b", "c", "ab", "bc"];
  const small = { tokens, types: [2, 3, 3, 1, 1, 1, 1, 1], bos: 1, eos: 2, unknown: 0, cases: [] };
  const encode = (scores: number[]): number[] =>
    makeSentencePieceTokenizer({ ...small, scores }, { "tokenizer.ggml.add_space_prefix": false }).encode("abc");
  assertEquals(encode([0, 0, 0, -9, -9, -9, -2, -1]), [3, 7]);
  assertEquals(encode([0, 0, 0, -9, -9, -9, -1, -2]), [6, 5]);
});

const byteLevel = {
  "tokenizer.ggml.model": "gpt2",
  "tokenizer.ggml.pre": "smollm",
  "tokenizer.ggml.tokens": ["<|end|>", "a", "b", "ab", "b", "<x>"],
  "tokenizer.ggml.token_type": [3, 1, 1, 1, 5, 4],
  "tokenizer.ggml.merges": ["a b"],
  "tokenizer.ggml.eos_token_id": 0,
  "tokenizer.ggml.bos_token_id": 0xffffffff,
};

function makeByteLevel(extra: Record<string, unknown> = {}): HfTokenizer {
  const { tokenizerJson, tokenizerConfig } = tokenizerFromGguf(gguf({ ...byteLevel, ...extra }));
  return new HfTokenizer(tokenizerJson, tokenizerConfig);
}

Deno.test("A byte-level vocabulary keeps its ids, also those that stand in the file twice", () => {
  const tokenizer = makeByteLevel();
  assertEquals(tokenizer.encode("abb"), [3, 2]);
  assertEquals(tokenizer.vocabSize, 6);
  assertEquals(tokenizer.decode([4, 1]), "ba");
  assertEquals(tokenizer.encode("<x>a"), [5, 1]);
  assertEquals([tokenizer.bosId, tokenizer.eosId], [null, 0]);
});

Deno.test("A token that ends turns is special even where the file calls it ordinary", () => {
  const types = [1, 1, 1, 1, 1, 1];
  assertEquals(makeByteLevel({ "tokenizer.ggml.token_type": types }).isSpecial(0), true);
  assertEquals(makeByteLevel({ "tokenizer.ggml.token_type": types, "tokenizer.ggml.eot_token_id": 5 }).isSpecial(5), true);
  assertEquals(makeByteLevel({ "tokenizer.ggml.token_type": types }).isSpecial(5), false);
});

Deno.test("Whether a BOS is added comes from the file, else from the kind of vocabulary", () => {
  const addsBos = (extra: Record<string, unknown>): boolean =>
    makeByteLevel({ "tokenizer.ggml.bos_token_id": 0, ...extra }).encode("a", { addSpecial: true })[0] === 0;
  assertEquals(addsBos({}), false);
  assertEquals(addsBos({ "tokenizer.ggml.pre": "llama-bpe" }), true);
  assertEquals(addsBos({ "tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": false }), false);
});

Deno.test("Damaged and unknown vocabularies are refused with what was found", () => {
  const refuse = (extra: Record<string, unknown>, message: string): void => {
    assertThrows(() => makeByteLevel(extra), TokenizerError, message);
  };
  refuse({ "tokenizer.ggml.model": "rwkv" }, "Unsupported tokenizer.ggml.model: rwkv; supported are gpt2 and llama");
  refuse({ "tokenizer.ggml.pre": "klingon" }, "Unsupported tokenizer.ggml.pre: klingon; supported are");
  refuse({ "tokenizer.ggml.token_type": [1] }, "has 1 elements, but there are 6 tokens");
  refuse({ "tokenizer.ggml.eos_token_id": 6 }, "tokenizer.ggml.eos_token_id is 6, but there are 6 tokens");
  refuse({ "tokenizer.ggml.merges": undefined }, "no tokenizer.ggml.merges");
  refuse({ "tokenizer.ggml.model": "llama" }, "no tokenizer.ggml.scores");
});
