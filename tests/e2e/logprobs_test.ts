/** Logprobs over HTTP on the default model: the same in every shape of an answer, down to the bytes of half characters. */
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { type Json, type RealServer, withRealServer } from "./real_server.ts";

const MESSAGES = [{ role: "user", content: "Write emoji and 漢字." }];

/** The parsed events of a stream, without its end mark. */
async function events(server: RealServer, path: string, body: Record<string, unknown>): Promise<Json[]> {
  const text = await (await server.post(path, { ...body, stream: true })).text();
  const data = text.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice("data: ".length));
  assertEquals(data.at(-1), "[DONE]");
  return data.slice(0, -1).map((event) => JSON.parse(event));
}

/** Rows whose answers are made of pieces of characters, in which no token alone is text. */
async function multiByteFields(server: RealServer): Promise<Record<string, unknown>> {
  const ids = await server.tokenize("🎉漢字é 🦀 ok");
  return { allowed_token_ids: [...new Set(ids)], temperature: 1, seed: 4, max_tokens: 30, ignore_eos: true };
}

Deno.test("chat logprobs are equal in stream and non-stream, with the bytes of every token, whole characters or not", async () => {
  await withRealServer({}, async (server) => {
    for (const top_logprobs of [0, 5]) {
      const body = { messages: MESSAGES, ...await multiByteFields(server), logprobs: true, top_logprobs };
      const whole: Json = await (await server.post("/v1/chat/completions", body)).json();
      const { content, message } = { content: whole.choices[0].logprobs.content, message: whole.choices[0].message.content };
      const streamed = await events(server, "/v1/chat/completions", body);
      assertEquals(streamed.flatMap((event) => event.choices[0]?.logprobs?.content ?? []), content);
      assertEquals(streamed.map((event) => event.choices[0]?.delta.content ?? "").join(""), message);
      assertEquals(content.length, 30);
      const bytes: number[] = content.flatMap((entry: Json) => entry.bytes);
      assertEquals(new TextDecoder().decode(Uint8Array.from(bytes)), message);
      assert(content.some((entry: Json) => entry.token.startsWith("bytes:\\x")), "No token was a piece of a character");
      for (const entry of content) {
        assertEquals(entry.top_logprobs.length, top_logprobs);
        assert(entry.logprob <= 0 && Number.isFinite(entry.logprob), `${entry.logprob}`);
        for (const other of entry.top_logprobs) if (other.token === entry.token) assertEquals(other.logprob, entry.logprob);
      }
    }
  });
});

Deno.test("completion logprobs are equal in stream and non-stream", async () => {
  await withRealServer({}, async (server) => {
    const body = { prompt: "One two three", ...await multiByteFields(server), logprobs: 3 };
    const whole: Json = (await (await server.post("/v1/completions", body)).json()).choices[0];
    const streamed = await events(server, "/v1/completions", body);
    const joined = (name: string): unknown[] => streamed.flatMap((event) => event.choices[0]?.logprobs?.[name] ?? []);
    for (const name of ["tokens", "token_logprobs", "top_logprobs", "text_offset"]) assertEquals(joined(name), whole.logprobs[name], name);
    assertEquals(streamed.map((event) => event.choices[0]?.text ?? "").join(""), whole.text);
  });
});

Deno.test("requests of one batch get the logprobs that each of them asked for, and the same numbers whatever the others ask", async () => {
  await withRealServer({}, async (server) => {
    const ask = (fields: Record<string, unknown>): Promise<Json> =>
      server.chat("Name three rivers.", { temperature: 0.8, seed: 3, max_tokens: 12, ignore_eos: true, ...fields });
    const [none, own, two, twenty] = await Promise.all([
      ask({}),
      ask({ logprobs: true }),
      ask({ logprobs: true, top_logprobs: 2 }),
      ask({ logprobs: true, top_logprobs: 20, temperature: 0.8 }),
    ]);
    assertEquals(none.logprobs, []);
    for (const [answer, count] of [[own, 0], [two, 2], [twenty, 20]] as const) {
      assertEquals(answer.text, none.text);
      assertEquals(answer.logprobs.map((entry: Json) => entry.top_logprobs.length), Array(12).fill(count));
      answer.logprobs.forEach((entry: Json, i: number) => assertAlmostEquals(entry.logprob, own.logprobs[i].logprob, 1e-4));
    }
  });
});
