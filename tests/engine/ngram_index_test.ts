import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { continuation, NgramIndex } from "../../src/engine/ngram_index.ts";

/** The definition: the longest suffix of 4 … 2 tokens that stands earlier, and there its latest place. */
function naive(tokens: readonly number[]): { at: number; size: number } | null {
  for (const size of [4, 3, 2]) {
    for (let at = tokens.length - 1; at >= size; at--) {
      const isSame = Array.from({ length: size }, (_, i) => tokens[at - 1 - i] === tokens[tokens.length - 1 - i]).every(Boolean);
      if (isSame) return { at, size };
    }
  }
  return null;
}

Deno.test("an index that grows token by token finds what a search of the whole text finds", () => {
  fc.assert(fc.property(fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 60 }), (list) => {
    const tokens = Int32Array.from(list);
    const index = new NgramIndex();
    for (let length = 1; length <= list.length; length++) {
      index.extend(tokens, length);
      assertEquals(index.find(tokens, length), naive(list.slice(0, length)), `after ${length} tokens`);
    }
  }));
});

Deno.test("it does not matter in which pieces the text comes", () => {
  const tokens = Int32Array.from({ length: 200 }, (_, i) => (i * i) % 7);
  const [whole, pieces] = [new NgramIndex(), new NgramIndex()];
  whole.extend(tokens, 200);
  for (const length of [1, 40, 41, 140, 200]) pieces.extend(tokens, length);
  assertEquals(pieces.find(tokens, 200), whole.find(tokens, 200));
});

Deno.test("what reaches the end of the text goes on with itself", () => {
  const tokens = Int32Array.of(9, 1, 2, 1, 2);
  assertEquals([...continuation(tokens, 5, 3, 6)], [1, 2, 1, 2, 1, 2]);
  assertEquals([...continuation(tokens, 5, 1, 2)], [1, 2]);
});
