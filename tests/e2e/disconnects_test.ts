import { assert, assertEquals } from "@std/assert";
import { type Json, type RealServer, withRealServer } from "./real_server.ts";
import { randomNumbers } from "./soak_requests.ts";

const NUM_STREAMS = 64;
const NUM_TOKENS = 10;

interface Streamed {
  readonly text: string;
  readonly tokenIds: readonly number[];
  readonly hasEnded: boolean;
}

/** Reads a stream, up to `maxChunks` of it. */
async function read(server: RealServer, index: number, maxChunks: number): Promise<Streamed> {
  const body = {
    messages: [{ role: "user", content: `Tell me about the number ${index}.` }],
    temperature: 1,
    seed: index,
    max_tokens: NUM_TOKENS,
    ignore_eos: true,
    stream: true,
    return_token_ids: true,
  };
  const response = await server.post("/v1/chat/completions", body);
  assertEquals(response.status, 200);
  let [rest, text, numChunks, hasEnded] = ["", "", 0, false];
  const tokenIds: number[] = [];
  for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
    const events = (rest + part).split("\n\n");
    rest = events.pop()!;
    for (const event of events) {
      if (event === "data: [DONE]") hasEnded = true;
      else if (event.startsWith("data: ")) {
        const choice: Json = JSON.parse(event.slice("data: ".length)).choices[0];
        text += choice.delta.content ?? "";
        tokenIds.push(...choice.token_ids ?? []);
      }
    }
    if (++numChunks >= maxChunks) break;
  }
  return { text, tokenIds, hasEnded };
}

Deno.test("of 64 streams at once, a third of them left at random places, the others lose nothing and no row stays behind", async () => {
  await withRealServer({}, async (server) => {
    const random = randomNumbers(3);
    const limits = Array.from({ length: NUM_STREAMS }, () => random() < 0.35 ? 1 + Math.floor(random() * NUM_TOKENS) : Infinity);
    const streams = await Promise.all(limits.map((limit, index) => read(server, index, limit)));
    const whole = streams.filter((_, index) => limits[index] === Infinity);
    assert(whole.length > 30 && whole.length < 55, `${whole.length} streams are read to their end`);
    for (const { text, tokenIds, hasEnded } of whole) {
      assertEquals([tokenIds.length, hasEnded], [NUM_TOKENS, true]);
      const { content } = await (await server.post("/detokenize", { tokens: tokenIds })).json();
      assertEquals(text, content);
    }
    await server.untilMetric("rowlock_rows_active", 0);
    await server.untilMetric("rowlock_sequences_live", 0);
    assertEquals(await server.metric("rowlock_rows_waiting"), 0);
  });
});

Deno.test("of 64 whole answers at once, a third of them left at random times, the others are whole and no row stays behind", async () => {
  await withRealServer({}, async (server) => {
    const random = randomNumbers(4);
    const ask = async (index: number): Promise<string> => {
      const isLeft = random() < 0.35;
      // Those that are left would run for a minute, were they not noticed.
      const body = { prompt: [index + 1], seed: index, ignore_eos: true, max_tokens: isLeft ? 900 : NUM_TOKENS, return_token_ids: true };
      const signal = isLeft ? AbortSignal.timeout(1 + Math.floor(random() * 1500)) : null;
      try {
        const response = await server.post("/v1/completions", body, signal);
        const { choices } = await response.json();
        return choices[0].token_ids.length === NUM_TOKENS && !isLeft ? "whole" : "wrong";
      } catch (error) {
        if (signal?.aborted) return "left";
        throw error;
      }
    };
    const outcomes = await Promise.all(Array.from({ length: NUM_STREAMS }, (_, index) => ask(index)));
    const numLeft = outcomes.filter((outcome) => outcome === "left").length;
    assertEquals([numLeft > 10, outcomes.includes("wrong")], [true, false]);
    await server.untilMetric("rowlock_rows_active", 0);
    await server.untilMetric("rowlock_sequences_live", 0);
    assertEquals(await server.metric("rowlock_disconnects_total"), numLeft);
  });
});
