/** Limits that a field's description tells, because the bounds of JSON Schema do not: each is the limit that is held. */
import { assert, assertEquals } from "@std/assert";
import { HELLO, type Json, testApp } from "./fakes.ts";

const CHAT = "/v1/chat/completions";

async function describedAs(name: string, pattern: RegExp): Promise<readonly string[]> {
  const { components } = await (await testApp().get("/openapi.json")).json();
  const field = components.schemas.ChatCompletionRequest.properties[name];
  const description: string = field.description ?? field.anyOf.find((schema: Json) => schema.description)?.description ?? "";
  const found = pattern.exec(description);
  assert(found !== null, `${name} does not tell ${pattern}: ${description}`);
  return found.slice(1);
}

/** @param json the body's fields beside the messages, as text: a seed need not be what JavaScript can hold. */
async function statusOf(json: string): Promise<number> {
  const body = `${JSON.stringify(HELLO).slice(0, -1)},${json}}`;
  const headers = { "content-type": "application/json" };
  const response = await testApp().app.fetch(new Request(`http://localhost${CHAT}`, { method: "POST", headers, body }));
  await response.body?.cancel();
  return response.status;
}

const withField = (name: string, value: unknown): Promise<number> => statusOf(JSON.stringify({ [name]: value }).slice(1, -1));

Deno.test("lists of texts tell how many texts they may have, and how long each may be", async () => {
  for (const name of ["bad_words", "dry_sequence_breakers", "stop"]) {
    const [maxItems, minLength, maxLength] = (await describedAs(name, /at most (\d+), each of (\d+) to (\d+) characters/)).map(Number);
    const texts = (numTexts: number): string[] => Array.from({ length: numTexts }, (_, i) => `${i}`);
    assertEquals([await withField(name, texts(maxItems!)), await withField(name, texts(maxItems! + 1))], [200, 400], name);
    for (const [length, status] of [[minLength! - 1, 400], [minLength, 200], [maxLength, 200], [maxLength! + 1, 400]] as const) {
      assertEquals(await withField(name, ["x".repeat(length!)]), status, `${name} with ${length} characters`);
    }
  }
});

Deno.test("bad_words tell how many bytes they may have together", async () => {
  const [maxBytes] = (await describedAs("bad_words", /together at most (\d+) bytes/)).map(Number);
  const words = Array.from({ length: maxBytes! / 256 }, (_, i) => `${i}`.padEnd(256, "x"));
  assertEquals([await withField("bad_words", words), await withField("bad_words", [...words, "x"])], [200, 400]);
});

Deno.test("a seed and a logit_bias tell their ranges", async () => {
  const [min, max] = await describedAs("seed", /from -2\^(\d+) to 2\^(\d+)-1/);
  const [least, most] = [-(2n ** BigInt(min!)), 2n ** BigInt(max!) - 1n];
  for (const [seed, status] of [[least - 1n, 422], [least, 200], [most, 200], [most + 1n, 422]] as const) {
    assertEquals(await statusOf(`"seed":${seed}`), status, `seed ${seed}`);
  }
  const [low, high] = (await describedAs("logit_bias", /number from (-\d+) to (\d+)/)).map(Number);
  for (const [bias, status] of [[low! - 1, 422], [low, 200], [high, 200], [high! + 1, 422]] as const) {
    assertEquals(await withField("logit_bias", { 97: bias }), status, `bias ${bias}`);
  }
});
