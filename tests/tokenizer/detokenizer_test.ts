import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { Detokenizer } from "../../src/tokenizer/detokenizer.ts";
import { makeSentencePieceTokenizer, makeTinyTokenizer, readFixture, type SentencePieceFixture } from "./tiny_tokenizers.ts";

const tiny = makeTinyTokenizer();
const sentencePiece = makeSentencePieceTokenizer(readFixture<SentencePieceFixture>("sentencepiece.json"));

for (const [name, tokenizer] of [["byte-level", tiny], ["SentencePiece", sentencePiece]] as const) {
  Deno.test(`All pieces together are the decoded text, whatever the tokens and the steps (${name})`, () => {
    const ids = fc.array(fc.array(fc.nat(tokenizer.vocabSize - 1), { maxLength: 4 }));
    fc.assert(fc.property(ids, (steps) => {
      const detokenizer = new Detokenizer(tokenizer);
      const pieces = steps.map((step) => detokenizer.push(step));
      pieces.push(detokenizer.flush());
      assertEquals(pieces.join(""), tokenizer.decode(steps.flat()));
    }));
  });
}

Deno.test("Text that arrives byte by byte is never split inside a code point", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => {
    const wanted = text.toWellFormed();
    const detokenizer = new Detokenizer(tiny);
    const pieces = tiny.encode(text).map((id) => detokenizer.push([id]));
    assert(pieces.every((piece) => piece.isWellFormed()));
    assertEquals(pieces.filter((piece) => piece !== ""), [...wanted]);
    assertEquals(detokenizer.flush(), "");
  }));
});

Deno.test("The bytes of an unfinished code point wait, and become U+FFFD at the end", () => {
  const detokenizer = new Detokenizer(tiny);
  assertEquals(detokenizer.push([104, 0xf0, 0x9f]), "h");
  assertEquals(detokenizer.push([0x99]), "");
  assertEquals(detokenizer.push([0x82, 105]), "🙂i");
  assertEquals(detokenizer.push([0xe4]), "");
  assertEquals(detokenizer.flush(), "\ufffd");
});

Deno.test("Special tokens between the bytes of a character do not disturb it", () => {
  const detokenizer = new Detokenizer(tiny);
  assertEquals(detokenizer.push([0xc3, 257, 0xa9]), "é");
});

Deno.test("A byte order mark is text", () => {
  assertEquals(new Detokenizer(tiny).push([0xef, 0xbb, 0xbf, 65]), "\ufeffA");
});

Deno.test("The start-of-text space is dropped once, and kept in a continuation", () => {
  const ids = sentencePiece.encode("Hello world");
  const push = (detokenizer: Detokenizer): string => ids.map((id) => detokenizer.push([id])).join("") + detokenizer.flush();
  assertEquals(push(new Detokenizer(sentencePiece)), "Hello world");
  assertEquals(push(new Detokenizer(sentencePiece, { isContinuation: true })), " Hello world");
});
