import { assertEquals } from "@std/assert";
import { SpecialTokenSplitter, type TextPart } from "../../src/tokenizer/special_tokens.ts";

function split(text: string, contents: readonly string[], strips: Partial<Record<"stripsLeft" | "stripsRight", boolean>> = {}): unknown[] {
  const tokens = contents.map((content, id) => ({ id, content, stripsLeft: false, stripsRight: false, ...strips }));
  return new SpecialTokenSplitter(tokens).split(text).map((part: TextPart) => "text" in part ? part.text : part.special.id);
}

Deno.test("Text is cut at special tokens, the longest of those that start at one place", () => {
  assertEquals(split("a<s><s>>b", ["<s>", "<s>>"]), ["a", 0, 1, "b"]);
  assertEquals(split("a<s><s>>b", ["<s>>", "<s>"]), ["a", 1, 0, "b"]);
  assertEquals(split("", ["<s>"]), []);
  assertEquals(split("plain", []), ["plain"]);
});

Deno.test("Characters of patterns are plain characters in a special token", () => {
  assertEquals(split("x[a.c]+y[abc]", ["[a.c]+", "[/INST]", "^$"]), ["x", 0, "y[abc]"]);
});

Deno.test("Stripping takes the white space on its side, and only there", () => {
  assertEquals(split("a <s> b", ["<s>"], { stripsLeft: true }), ["a", 0, " b"]);
  assertEquals(split("a <s> b", ["<s>"], { stripsRight: true }), ["a ", 0, "b"]);
  assertEquals(split("<s> \n <s>", ["<s>"], { stripsRight: true }), [0, 0]);
});
