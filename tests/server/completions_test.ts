import { assertEquals, assertMatch } from "@std/assert";
import { BOS, ByteTokenizer, EOS, eventsOf, FakeEngine, type Json, say, testApp } from "./fakes.ts";

const PATH = "/v1/completions";

async function complete(engine: FakeEngine, body: Record<string, unknown>, model = {}): Promise<Json> {
  const response = await testApp(engine, {}, model).post(PATH, body);
  return { status: response.status, ...await response.json() };
}

Deno.test("a completion goes on after text", async () => {
  const engine = new FakeEngine(() => ({ tokens: say(" world") }));
  const body = await complete(engine, { prompt: "hello" });
  assertEquals(body.choices, [{ index: 0, text: " world", logprobs: null, finish_reason: "stop" }]);
  assertEquals([body.object, body.usage.prompt_tokens, body.usage.completion_tokens], ["text_completion", 5, 7]);
});

Deno.test("prompts come as a string, strings, ids or lists of ids, with choices in order", async () => {
  const cases: [unknown, number[][]][] = [
    ["ab", [[97, 98]]],
    [["a", "b"], [[97], [98]]],
    [[1, 2, 3], [[1, 2, 3]]],
    [[[1], [2]], [[1], [2]]],
  ];
  for (const [prompt, expected] of cases) {
    const engine = new FakeEngine((request) => ({ tokens: [...request.promptIds, EOS] }));
    const body = await complete(engine, { prompt, return_token_ids: true });
    assertEquals(engine.requests.map(({ promptIds }) => [...promptIds]), expected);
    assertEquals(body.choices.map((choice: Json) => [choice.index, choice.prompt_token_ids]), expected.map((ids, i) => [i, ids]));
  }
});

Deno.test("n choices of several prompts are listed prompt by prompt, with the same seeds for each prompt", async () => {
  const engine = new FakeEngine((_request, index) => ({ tokens: say(String(index)) }));
  const body = await complete(engine, { prompt: ["a", "b"], n: 2, seed: 3 });
  assertEquals(body.choices.map((choice: Json) => choice.text), ["0", "1", "2", "3"]);
  const seeds = engine.requests.map(({ sampling }) => sampling.seed);
  assertEquals([seeds[0], seeds[1]], [seeds[2], seeds[3]]);
});

Deno.test("an empty prompt is the BOS token, or is refused when there is none", async () => {
  const engine = new FakeEngine();
  assertEquals((await complete(engine, { prompt: "" }, { tokenizer: new ByteTokenizer(BOS) })).status, 200);
  assertEquals([...engine.requests[0]!.promptIds], [BOS]);
  const { status, error } = await complete(engine, { prompt: "" });
  assertEquals([status, error.param], [400, "prompt"]);
});

Deno.test("prompts that are no prompts are refused", async () => {
  const cases: [unknown, number][] = [
    [undefined, 400],
    [null, 400],
    [[], 400],
    [[[]], 400],
    [[1.5], 400],
    [["a", 1], 400],
    [[1, "a"], 400],
    [[[1], "a"], 400],
    [[null], 400],
    [5, 400],
    [{}, 400],
    [[999_999], 422],
    [[-1], 422],
    [[[1], [264]], 422],
  ];
  for (const [prompt, expected] of cases) {
    const { status, error } = await complete(new FakeEngine(), { prompt });
    assertEquals([prompt, status, error.param], [prompt, expected, "prompt"]);
  }
});

Deno.test("echo puts the exact prompt before the answer, with its logprobs, in both modes", async () => {
  const script = () => ({ tokens: say("🎉!") });
  const request = { prompt: "é b", echo: true, logprobs: 1 };
  const whole = await complete(new FakeEngine(script), request);
  const [choice] = whole.choices;
  assertEquals(choice.text, "é b🎉!");
  assertEquals(choice.logprobs.tokens.slice(0, 5), ["bytes:\\xc3", "bytes:\\xa9", " ", "b", "bytes:\\xf0"]);
  assertEquals(choice.logprobs.token_logprobs[0], null);
  assertEquals(choice.logprobs.top_logprobs[0], null);
  assertEquals(choice.logprobs.text_offset, [0, 0, 1, 2, 3, 3, 3, 3, 4]);
  const text = await (await testApp(new FakeEngine(script)).post(PATH, { ...request, stream: true })).text();
  const choices = eventsOf(text).flatMap((event) => event.choices);
  assertEquals(choices.map((part) => part.text).join(""), choice.text);
  for (const list of ["tokens", "token_logprobs", "top_logprobs", "text_offset"]) {
    assertEquals(choices.flatMap((part) => part.logprobs?.[list] ?? []), choice.logprobs[list]);
  }
});

Deno.test("max_tokens 0 with echo scores the prompt and generates nothing", async () => {
  const engine = new FakeEngine(() => ({ tokens: say("never") }));
  const body = await complete(engine, { prompt: "abc", echo: true, logprobs: 1, max_tokens: 0 });
  assertEquals(body.choices[0].text, "abc");
  assertEquals(body.choices[0].logprobs.tokens, ["a", "b", "c"]);
  assertEquals([body.choices[0].finish_reason, body.usage.completion_tokens], ["length", 0]);
  assertEquals([engine.requests[0]!.maxTokens, engine.requests[0]!.promptLogprobs], [0, 1]);
});

Deno.test("a prompt may fill the whole context when it is only scored", async () => {
  const body = { prompt: Array.from({ length: 256 }, () => 1), max_tokens: 0 };
  assertEquals((await complete(new FakeEngine(), body)).status, 200);
  const { status, error } = await complete(new FakeEngine(), { ...body, max_tokens: 1 });
  assertEquals([status, error.code, error.param], [400, "context_length_exceeded", "prompt"]);
  assertMatch(error.message, /256 tokens.*256 tokens/);
});

Deno.test("a BOS that the tokenizer adds is a token of the echo and no part of its text", async () => {
  const body = await complete(new FakeEngine(), { prompt: "ab", echo: true, logprobs: 0, max_tokens: 0 }, {
    tokenizer: new ByteTokenizer(BOS),
  });
  assertEquals(body.choices[0].text, "ab");
  assertEquals([body.choices[0].logprobs.tokens, body.choices[0].logprobs.text_offset], [["<s>", "a", "b"], [0, 0, 1]]);
});

Deno.test("the chosen token is among the alternatives of the legacy logprobs", async () => {
  const body = await complete(new FakeEngine(() => ({ tokens: say("a") })), { prompt: "x", logprobs: 2, max_tokens: 1 });
  assertEquals(body.choices[0].logprobs, {
    tokens: ["a"],
    token_logprobs: [-0.875],
    top_logprobs: [{ b: -0.125, a: -0.875 }],
    text_offset: [0],
  });
});

Deno.test("control-token text of a prompt is data unless parse_special says otherwise", async () => {
  const engine = new FakeEngine();
  await complete(engine, { prompt: "<s>" });
  await complete(engine, { prompt: "<s>", parse_special: true });
  assertEquals(engine.requests.map(({ promptIds }) => [...promptIds]), [[60, 115, 62], [BOS]]);
});

Deno.test("best_of and suffix are refused by name", async () => {
  for (const [name, value] of [["best_of", 3], ["suffix", "end"]] as const) {
    const { status, error } = await complete(new FakeEngine(), { prompt: "a", [name]: value });
    assertEquals([status, error.param, error.code], [400, name, "unsupported_parameter"]);
  }
});

Deno.test("without a tokenizer ids are served, tokens are named by id and there is no text", async () => {
  const model = { tokenizer: null, chatTemplate: null };
  const engine = new FakeEngine(() => ({ tokens: [97, 98, EOS] }));
  const body = await complete(engine, { prompt: [1, 2], logprobs: 1, return_token_ids: true }, model);
  assertEquals([body.choices[0].text, body.choices[0].token_ids, body.choices[0].prompt_token_ids], ["", [97, 98, EOS], [1, 2]]);
  assertEquals(body.choices[0].logprobs.tokens, ["token_id:97", "token_id:98"]);
  const stream = await (await testApp(engine, {}, model).post(PATH, { prompt: [1], return_token_ids: true, stream: true })).text();
  assertEquals(eventsOf(stream).flatMap((event) => event.choices[0].token_ids), [97, 98, EOS]);
  for (const wrong of [{ prompt: "a" }, { prompt: [1], stop: "a" }, { prompt: [1], bad_words: ["a"] }]) {
    assertEquals((await complete(engine, wrong, model)).status, 400);
  }
});

Deno.test("a completion keeps the leading space of its answer where the tokenizer would strip it", async () => {
  class Stripping extends ByteTokenizer {
    override readonly stripsLeadingSpace = true as boolean as false;
  }
  const body = await complete(new FakeEngine(() => ({ tokens: say(" x") })), { prompt: "a" }, { tokenizer: new Stripping() });
  assertEquals(body.choices[0].text, " x");
});
