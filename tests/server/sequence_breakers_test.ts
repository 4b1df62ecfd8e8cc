import { assertEquals } from "@std/assert";
import { SequenceBreakers } from "../../src/server/sequence_breakers.ts";
import { ByteTokenizer } from "./fakes.ts";

Deno.test("a breaker is every token that holds it, and every token that begins it with the tokens of the rest", () => {
  const breakers = new SequenceBreakers(new ByteTokenizer());
  assertEquals(breakers.encode([":"]), [[58], [260]]);
  // " beta" holds "eta"; "a" and " beta" can begin "ab", whose rest is "b".
  assertEquals(breakers.encode(["eta"]), [[101, 116, 97], [259]]);
  assertEquals(breakers.encode(["ab"]), [[97, 98], [259, 98]]);
  assertEquals(breakers.encode(["ab", ":"]).length, 4);
});

Deno.test("a breaker whose rest begins inside a character has no such sequence", () => {
  assertEquals(new SequenceBreakers(new ByteTokenizer()).encode(["é"]), []);
});

Deno.test("breakers are searched for once", () => {
  const tokenizer = new ByteTokenizer();
  let numLooks = 0;
  const counting = new Proxy(tokenizer, {
    get: (target, key) => {
      if (key === "tokenBytes") numLooks++;
      const value = Reflect.get(target, key);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const breakers = new SequenceBreakers(counting);
  breakers.encode([":"]);
  const numFirst = numLooks;
  breakers.encode([":", "x"]);
  assertEquals(numLooks, numFirst);
});
