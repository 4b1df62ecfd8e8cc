import { assertEquals } from "@std/assert";
import { HfTokenizer } from "../../src/tokenizer/hf_tokenizer.ts";

/** Words that a pre-tokenizer makes, seen through a vocabulary of whole words. */
function wordsOf(preTokenizer: Record<string, unknown>, text: string, words: string[]): (string | undefined)[] {
  const vocab = Object.fromEntries(words.map((word, id) => [word, id]));
  const tokenizer = new HfTokenizer({
    pre_tokenizer: preTokenizer,
    decoder: { type: "Fuse" },
    model: { type: "BPE", vocab, merges: [], ignore_merges: true },
  });
  return tokenizer.encode(text).map((id) => words[id]);
}

Deno.test("Digits are those of Unicode, one by one or together", () => {
  const words = ["a", "1", "٣", "½", "1٣½"];
  assertEquals(wordsOf({ type: "Digits", individual_digits: true }, "a1٣½", words), ["a", "1", "٣", "½"]);
  assertEquals(wordsOf({ type: "Digits", individual_digits: false }, "a1٣½a", words), ["a", "1٣½", "a"]);
});

Deno.test("A split can merge its matches with the text before, with the text after, or with each other", () => {
  const split = (behavior: string): Record<string, unknown> => ({ type: "Split", pattern: { String: "-" }, behavior });
  const words = ["a", "a-", "-", "-b", "b", "--"];
  assertEquals(wordsOf(split("MergedWithPrevious"), "a--b", words), ["a-", "-", "b"]);
  assertEquals(wordsOf(split("MergedWithNext"), "a--b", words), ["a", "-", "-b"]);
  assertEquals(wordsOf(split("Contiguous"), "a--b", words), ["a", "--", "b"]);
  assertEquals(wordsOf(split("Isolated"), "a--b", words), ["a", "-", "-", "b"]);
  assertEquals(wordsOf(split("Removed"), "a--b", words), ["a", "b"]);
});

Deno.test("Metaspace cuts before every mark, unless it is told not to", () => {
  const words = ["\u2581a", "\u2581b", "\u2581a\u2581b", "a\u2581b", "a"];
  const metaspace = { type: "Metaspace", prepend_scheme: "always" };
  assertEquals(wordsOf(metaspace, "a b", words), ["\u2581a", "\u2581b"]);
  assertEquals(wordsOf({ ...metaspace, split: false }, "a b", words), ["\u2581a\u2581b"]);
  assertEquals(wordsOf({ type: "Metaspace", add_prefix_space: false, split: false }, "a b", words), ["a\u2581b"]);
});

Deno.test("GPT-2's words treat the byte order mark as a character and the next-line control as white space", () => {
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, use_regex: true };
  const [bom, nextLine] = ["\u00ef\u00bb\u00bf", "\u00c2\u0127"];
  const words = ["a", "\u0120", bom, `\u0120${bom}`, nextLine, `${nextLine}${nextLine}`];
  assertEquals(wordsOf(byteLevel, " \ufeffa", words), [`\u0120${bom}`, "a"]);
  assertEquals(wordsOf(byteLevel, "\u0085\u0085a", words), [nextLine, nextLine, "a"]);
});
