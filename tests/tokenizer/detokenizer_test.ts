import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { Detokenizer } from "../../src/tokenizer/detokenizer.ts";
import { makeSentencePieceTokenizer, makeTinyTokenizer, readFixture, type SentencePieceFixture } from "./tiny_tokenizers.ts";

const tiny = makeTinyTokenizer();
const sentencePiece = makeSentencePieceTokenizer(readFixture<SentencePieceFixture>("sentencepiece.json"));

function pushAll(detokenizer: Detokenizer, ids: readonly number[]): string {
  return ids.map((id) => detokenizer.push(id)).join("");
}

for (const [name, tokenizer] of [["byte-level", tiny], ["SentencePiece", sentencePiece]] as const) {
  Deno.test(`All pieces together are the decoded text, whatever the tokens (${name})`, () => {
    fc.assert(fc.property(fc.array(fc.nat(tokenizer.vocabSize - 1)), (ids) => {
      const detokenizer = new Detokenizer(tokenizer);
      assertEquals(pushAll(detokenizer, ids) + detokenizer.flush(), tokenizer.decode(ids));
    }));
  });
}

/** Whole characters, parts of them, what is neither, and nothing. */
const SPELLINGS = ["a", " b", "é", "🙂", "\ufeff", ""].map((text) => new TextEncoder().encode(text));
const BROKEN = [[0xc3], [0xa9], [0xf0, 0x9f], [0x99, 0x82], [0x82, 97], [97, 0xe4], [0xb8, 0xad], [0xff], [0xed, 0xa0, 0x80], [0xf4, 0x90]];

Deno.test("Tokens of whole characters, of parts of them and of broken bytes are together what all their bytes are, in any order", () => {
  const bytes = [...SPELLINGS, ...BROKEN.map((values) => Uint8Array.from(values))];
  const tokenizer = new Proxy(makeTinyTokenizer(), {
    get: (real, key) => key === "tokenBytes" ? (id: number): Uint8Array => bytes[id]! : Reflect.get(real, key, real),
  });
  fc.assert(
    fc.property(fc.array(fc.nat(bytes.length - 1), { maxLength: 12 }), (ids) => {
      const detokenizer = new Detokenizer(tokenizer);
      const whole = Uint8Array.from(ids.flatMap((id) => [...bytes[id]!]));
      const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(whole);
      assertEquals(pushAll(detokenizer, ids) + detokenizer.flush(), text);
    }),
    { numRuns: 1000 },
  );
});

Deno.test("Text that arrives byte by byte is never split inside a code point", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => {
    const wanted = text.toWellFormed();
    const detokenizer = new Detokenizer(tiny);
    const pieces = tiny.encode(text).map((id) => detokenizer.push(id));
    assert(pieces.every((piece) => piece.isWellFormed()));
    assertEquals(pieces.filter((piece) => piece !== ""), [...wanted]);
    assertEquals(detokenizer.flush(), "");
  }));
});

Deno.test("The bytes of an unfinished code point wait, and become U+FFFD at the end", () => {
  const detokenizer = new Detokenizer(tiny);
  assertEquals(pushAll(detokenizer, [104, 0xf0, 0x9f]), "h");
  assertEquals(detokenizer.push(0x99), "");
  assertEquals(pushAll(detokenizer, [0x82, 105]), "🙂i");
  assertEquals(detokenizer.push(0xe4), "");
  assertEquals(detokenizer.flush(), "\ufffd");
});

Deno.test("Special tokens between the bytes of a character do not disturb it", () => {
  const detokenizer = new Detokenizer(tiny);
  assertEquals(pushAll(detokenizer, [0xc3, 257, 0xa9]), "é");
});

Deno.test("A byte order mark is text", () => {
  assertEquals(pushAll(new Detokenizer(tiny), [0xef, 0xbb, 0xbf, 65]), "\ufeffA");
});

Deno.test("The start-of-text space is dropped once, and kept in a continuation", () => {
  const ids = sentencePiece.encode("Hello world");
  assertEquals(pushAll(new Detokenizer(sentencePiece), ids), "Hello world");
  assertEquals(pushAll(new Detokenizer(sentencePiece, { isContinuation: true }), ids), " Hello world");
});
