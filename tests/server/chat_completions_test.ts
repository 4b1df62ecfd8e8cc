import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { createParser } from "eventsource-parser";
import { EOS, eventsOf, FakeEngine, HELLO, type Json, PIECES, say, testApp } from "./fakes.ts";

const CHAT = "/v1/chat/completions";

async function answer(tokens: readonly number[], body: Record<string, unknown>): Promise<Json> {
  const { post } = testApp(new FakeEngine(() => ({ tokens })));
  const response = await post(CHAT, { ...HELLO, ...body });
  return { status: response.status, ...await response.json() };
}

async function streamText(tokens: readonly number[], body: Record<string, unknown>): Promise<string> {
  const { post } = testApp(new FakeEngine(() => ({ tokens })));
  return await (await post(CHAT, { ...HELLO, stream: true, ...body })).text();
}

/** Content, logprobs and reason of one choice of a stream. */
function joined(text: string, index = 0): Json {
  const choices = eventsOf(text).flatMap((event) => event.choices).filter((choice) => choice.index === index);
  return {
    content: choices.map((choice) => choice.delta.content ?? "").join(""),
    logprobs: choices.flatMap((choice) => choice.logprobs?.content ?? []),
    finishReason: choices.at(-1).finish_reason,
    tokenIds: choices.flatMap((choice) => choice.token_ids ?? []),
  };
}

Deno.test("a chat completion has the content, the usage and the timings", async () => {
  const { status, system_fingerprint, ...body } = await answer(say("Hé 🎉"), {});
  assertEquals(status, 200);
  assertMatch(system_fingerprint, /^fp_[0-9a-f]{12}$/);
  assertEquals(body, {
    id: "chatcmpl-id1",
    object: "chat.completion",
    created: 1_700_000_000,
    model: "test/tiny",
    choices: [{ index: 0, message: { role: "assistant", content: "Hé 🎉", refusal: null }, logprobs: null, finish_reason: "stop" }],
    usage: { prompt_tokens: 21, completion_tokens: 9, total_tokens: 30, prompt_tokens_details: { cached_tokens: 0 } },
    timings: { queue_ms: 1, prefill_ms: 2, decode_ms: 4, tokens_per_second: 2250 },
  });
});

Deno.test("a stream is the role, whole characters, the finish reason and one [DONE], byte for byte", async () => {
  const { post } = testApp(new FakeEngine(() => ({ tokens: say("é!") })));
  const response = await post(CHAT, { ...HELLO, stream: true });
  assertEquals(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
  const text = await response.text();
  const fingerprint = eventsOf(text)[0].system_fingerprint;
  const event = (choice: string): string =>
    `data: {"id":"chatcmpl-id1","object":"chat.completion.chunk","created":1700000000,"model":"test/tiny","system_fingerprint":"${fingerprint}","choices":[${choice}]}\n\n`;
  assertEquals(
    text,
    event('{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}') +
      event('{"index":0,"delta":{"content":"é"},"logprobs":null,"finish_reason":null}') +
      event('{"index":0,"delta":{"content":"!"},"logprobs":null,"finish_reason":null}') +
      event('{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}') +
      "data: [DONE]\n\n",
  );
});

Deno.test("an independent parser reads every event of a stream", async () => {
  const text = await streamText(say("a\nb\r\n\r\nc"), { stream_options: { include_usage: true } });
  const datas: string[] = [];
  createParser({ onEvent: ({ data }) => datas.push(data) }).feed(text);
  assertEquals(datas.at(-1), "[DONE]");
  const chunks = datas.slice(0, -1).map((data): Json => JSON.parse(data));
  assertEquals(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""), "a\nb\r\n\r\nc");
});

Deno.test("the usage comes as a last chunk without choices, and only when it is asked for", async () => {
  for (const streamOptions of [{}, null, { include_usage: false }, { include_usage: null }]) {
    const events = eventsOf(await streamText(say("a"), { stream_options: streamOptions }));
    assertEquals(events.filter((event) => event.choices.length === 0 || "usage" in event), []);
  }
  const events = eventsOf(await streamText(say("a"), { stream_options: { include_usage: true } }));
  assertEquals(events.slice(0, -1).every((event) => event.usage === null && event.choices.length === 1), true);
  const last = events.at(-1);
  assertEquals([last.object, last.choices, last.usage.total_tokens], ["chat.completion.chunk", [], 23]);
});

Deno.test("stream_options without stream is accepted", async () => {
  assertEquals((await answer(say("a"), { stream_options: { include_usage: true } })).choices[0].message.content, "a");
});

Deno.test("n choices have their own index, and seeds that are derived from the request's", async () => {
  const engine = new FakeEngine((_request, index) => ({ tokens: say(`choice ${index}`) }));
  const { post } = testApp(engine);
  const body = await (await post(CHAT, { ...HELLO, n: 3, seed: 5 })).json();
  assertEquals(body.choices.map((choice: Json) => [choice.index, choice.message.content]), [[0, "choice 0"], [1, "choice 1"], [
    2,
    "choice 2",
  ]]);
  assertEquals(engine.requests.map(({ sampling }) => sampling.seed), [5n, 7134611160154358618n, 13877614986023876344n]);
  assertEquals([body.usage.prompt_tokens, body.usage.completion_tokens], [21, 27]);
});

Deno.test("streamed choices are told apart by their index", async () => {
  const { post } = testApp(new FakeEngine((_request, index) => ({ tokens: say(`choice ${index}`) })));
  const text = await (await post(CHAT, { ...HELLO, n: 2, stream: true })).text();
  assertEquals([joined(text, 0).content, joined(text, 1).content], ["choice 0", "choice 1"]);
  assertEquals(eventsOf(text).slice(0, 2).map((event) => [event.choices[0].index, event.choices[0].delta.role]), [[0, "assistant"], [
    1,
    "assistant",
  ]]);
});

Deno.test("a stop string that goes over tokens is cut out, and nothing of it or after it is sent", async () => {
  const cases: [string, string | string[], string][] = [
    ["one, two, three, four, five, six", ["five"], "one, two, three, four, "],
    ["quick brown fox", ["own fox"], "quick br"],
    ["alpha beta gamma delta", "beta gamma", "alpha "],
    ["ABCDEFGHIJ", ["DEFGHIJ"], "ABC"],
    ["aab", ["ab"], "a"],
    ["x🎉y", ["🎉"], "x"],
    ["no stop here", ["nowhere", "here!"], "no stop here"],
  ];
  for (const [said, stop, expected] of cases) {
    const whole = await answer(say(said), { stop });
    assertEquals([whole.choices[0].message.content, whole.choices[0].finish_reason], [expected, "stop"]);
    assertEquals(joined(await streamText(say(said), { stop })).content, expected);
  }
});

Deno.test("a stop string ends the generation at once", async () => {
  const engine = new FakeEngine(() => ({ tokens: [...say("abc").slice(0, 3), ...say("def")], isStalled: true }));
  const body = await (await testApp(engine).post(CHAT, { ...HELLO, stop: "bc" })).json();
  assertEquals([body.choices[0].message.content, body.usage.completion_tokens], ["a", 3]);
  assertEquals(engine.cancelled, ["chatcmpl-id1/0/0"]);
});

Deno.test("tokens, logprobs and ids after a stop string are left out when one step brings many tokens", async () => {
  const engine = new FakeEngine(() => ({ tokens: say("ab|cdef"), tokensPerStep: 8 }));
  const body = await (await testApp(engine).post(CHAT, { ...HELLO, stop: "|c", logprobs: true, return_token_ids: true })).json();
  assertEquals(body.choices[0].logprobs.content.map((entry: Json) => entry.token), ["a", "b"]);
  assertEquals([body.choices[0].token_ids, body.usage.completion_tokens], [[97, 98], 4]);
});

Deno.test("a text that only begins like a stop string is given out at the end", async () => {
  assertEquals((await answer(say("end of st"), { stop: "stop" })).choices[0].message.content, "end of st");
  assertEquals(joined(await streamText(say("end of st"), { stop: "stop" })).content, "end of st");
});

Deno.test("max_completion_tokens and max_tokens are two names of one limit: either ends with length, and they may not differ", async () => {
  for (const body of [{ max_completion_tokens: 3 }, { max_tokens: 3 }, { max_completion_tokens: 3, max_tokens: 3 }]) {
    const { choices, usage } = await answer(say("abcdef"), body);
    assertEquals([choices[0].message.content, choices[0].finish_reason, usage.completion_tokens], ["abc", "length", 3]);
  }
  const { status, error } = await answer(say("abcdef"), { max_completion_tokens: 3, max_tokens: 9 });
  assertEquals([status, error.param, error.message], [
    400,
    "max_tokens",
    "max_tokens: must equal max_completion_tokens, 3, when both are given; found 9",
  ]);
});

Deno.test("max_tokens is cut to the context, and absent it is the rest of the context", async () => {
  const engine = new FakeEngine();
  const { post } = testApp(engine);
  for (const max_tokens of [null, undefined, 2 ** 31, 2 ** 70]) await post(CHAT, { ...HELLO, max_tokens });
  assertEquals(engine.requests.map(({ maxTokens }) => maxTokens), [235, 235, 235, 235]);
});

Deno.test("a prompt that fills the context is refused with the numbers", async () => {
  const { status, error } = await answer([], { messages: [{ role: "user", content: "x".repeat(300) }] });
  assertEquals([status, error.code, error.param], [400, "context_length_exceeded", "messages"]);
  assertMatch(error.message, /256 tokens.*319 tokens/);
});

Deno.test("a text that cannot fit is refused before it is tokenized", async () => {
  const { status, error } = await answer([], { messages: [{ role: "user", content: "x".repeat(1_000_000) }] });
  assertEquals([status, error.code], [400, "context_length_exceeded"]);
  assertMatch(error.message, /at least 200000 tokens/);
});

Deno.test("logprobs are equal in stream and non-stream, and their bytes are the text", async () => {
  const said = say("é, 🎉");
  const body = { logprobs: true, top_logprobs: 20 };
  const whole = await answer(said, body);
  const { content } = whole.choices[0].logprobs;
  assertEquals(joined(await streamText(said, body)).logprobs, content);
  assertEquals(new TextDecoder().decode(Uint8Array.from(content.flatMap((entry: Json) => entry.bytes))), "é, 🎉");
  assertEquals(content[0].token, "bytes:\\xc3");
  assertEquals(content[2], { ...content[2], token: ",", bytes: [44] });
  assertEquals(content.map((entry: Json) => entry.top_logprobs.length), content.map(() => 20));
});

Deno.test("logprobs without top_logprobs have no alternatives, and their absence is null", async () => {
  assertEquals((await answer(say("a"), { logprobs: true })).choices[0].logprobs.content[0].top_logprobs, []);
  assertEquals((await answer(say("a"), { logprobs: false })).choices[0].logprobs, null);
  const { status, error } = await answer(say("a"), { top_logprobs: 2 });
  assertEquals([status, error.param], [400, "top_logprobs"]);
});

Deno.test("a stream gives half a character's tokens with the character", async () => {
  const text = await streamText(say("é"), { logprobs: true });
  const counts = eventsOf(text).filter((event) => event.choices[0].logprobs).map((event) => event.choices[0].logprobs.content.length);
  assertEquals(counts, [2]);
});

Deno.test("a character that never ends becomes U+FFFD in both modes", async () => {
  const tokens = [0x61, 0xf0, 0x9f, EOS];
  assertEquals((await answer(tokens, {})).choices[0].message.content, "a\ufffd");
  assertEquals(joined(await streamText(tokens, {})).content, "a\ufffd");
});

Deno.test("an answer of white space, and an empty one, stay what they are", async () => {
  assertEquals((await answer(say(" \n\t"), {})).choices[0].message.content, " \n\t");
  assertEquals((await answer([EOS], {})).choices[0].message.content, "");
  assertEquals(joined(await streamText([EOS], {})), { content: "", logprobs: [], finishReason: "stop", tokenIds: [] });
});

Deno.test("return_token_ids adds the prompt's ids and the answer's, the stop token included", async () => {
  const whole = await answer(say("ab"), { return_token_ids: true });
  assertEquals(whole.choices[0].token_ids, [97, 98, EOS]);
  const text = await streamText(say("ab"), { return_token_ids: true });
  assertEquals(joined(text).tokenIds, [97, 98, EOS]);
  assertEquals(eventsOf(text)[0].prompt_token_ids, whole.prompt_token_ids);
  assertEquals(whole.prompt_token_ids.length, 21);
});

Deno.test("a stop token of the request ends the answer and has no text", async () => {
  const engine = new FakeEngine(() => ({ tokens: say("abc") }));
  const body = await (await testApp(engine).post(CHAT, { ...HELLO, stop_token_ids: [98] })).json();
  assertEquals([body.choices[0].message.content, body.choices[0].finish_reason], ["a", "stop"]);
  assertEquals(engine.requests[0]!.stopIds, [EOS, 98]);
});

Deno.test("ignore_eos takes the model's stop tokens away and keeps the request's", async () => {
  const engine = new FakeEngine(() => ({ tokens: [97, EOS, 98, 99] }));
  const body = await (await testApp(engine).post(CHAT, { ...HELLO, ignore_eos: true, stop_token_ids: [99], return_token_ids: true }))
    .json();
  assertEquals([body.choices[0].message.content, body.choices[0].token_ids], ["ab", [97, EOS, 98, 99]]);
});

Deno.test("unseeded requests have random seeds, and -1 asks for one", async () => {
  const engine = new FakeEngine();
  const { post } = testApp(engine, { randomSeed: () => BigInt(engine.requests.length) + 1000n });
  for (const seed of [undefined, null, -1, -2, 0]) await post(CHAT, { ...HELLO, seed });
  assertEquals(engine.requests.map(({ sampling }) => sampling.seed), [1000n, 1001n, 1002n, 2n ** 64n - 2n, 0n]);
});

Deno.test("two unseeded requests of the default app differ in seed", async () => {
  const { randomSeed } = await import("../../src/server/seeds.ts");
  assertNotEquals(randomSeed(), randomSeed());
});

Deno.test("pieces of several bytes are tokens of their own in logprobs", async () => {
  const [id, text] = [...PIECES][0]!;
  const body = await answer([97, id, EOS], { logprobs: true });
  assertEquals(body.choices[0].logprobs.content.map((entry: Json) => entry.token), ["a", text]);
});
