import { assertEquals } from "@std/assert";
import { compareWithFixture, type ParityFixture } from "../../scripts/fixtures/parity_fixture.ts";
import { BOS, ByteTokenizer } from "../server/fakes.ts";
import { readFixture } from "../tokenizer/tiny_tokenizers.ts";

const FIXTURE: ParityFixture = {
  package: "p@1",
  ownTexts: ["<s>"],
  hello: [BOS, 72, 101, 108, 108, 111],
  cases: [[[97]], [[195, 169]], [[BOS]]],
};
const TEXTS = ["a", "é"];

Deno.test("a tokenizer that gives the fixture's ids and texts has no differences", () => {
  assertEquals(compareWithFixture(new ByteTokenizer(BOS), FIXTURE, TEXTS), []);
});

Deno.test("wrong ids, a wrong way back, a missing BOS and a stale fixture are all told", () => {
  const tokenizer = new ByteTokenizer(BOS);
  const changed = (cases: ParityFixture["cases"]): string[] => compareWithFixture(tokenizer, { ...FIXTURE, cases }, TEXTS);
  assertEquals(changed([[[98], "b"], [[195, 169]], [[BOS]]]), ['ids of "a": found [97], expected [98]']);
  assertEquals(changed([[[97], "A"], [[195, 169]], [[BOS]]]), ['text of [97]: found "a", expected "A"']);
  assertEquals(changed([[[97]]]), ["the fixture has 1 cases for 3 texts; make it again"]);
  assertEquals(compareWithFixture(new ByteTokenizer(), FIXTURE, TEXTS).length, 1);
});

Deno.test("at least five vocabularies have a fixture that goes with the common texts", async () => {
  const { cases } = readFixture<{ cases: unknown[] }>("smollm2.json");
  const names = (await Array.fromAsync(Deno.readDir(new URL("../fixtures/tokenizer/parity", import.meta.url)))).map(({ name }) => name);
  assertEquals(names.length >= 5, true);
  for (const name of names) {
    const fixture = readFixture<ParityFixture>(`parity/${name}`);
    assertEquals([name, fixture.cases.length], [name, cases.length + fixture.ownTexts.length]);
  }
});
