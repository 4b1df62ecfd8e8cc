/** Lists of a request: they are counted before anyone looks at their items, and wrong items are not all gathered. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { ApiError } from "../../src/server/errors.ts";
import { ChatCompletionRequest } from "../../src/server/schemas/chat_completions.ts";
import { CompletionRequest } from "../../src/server/schemas/completions.ts";
import { parseRequest } from "../../src/server/schemas/parse.ts";
import { DetokenizeRequest } from "../../src/server/schemas/tokenize.ts";
import { FakeEngine, HELLO, type Json, testApp } from "./fakes.ts";

const NUM_ITEMS = 200_000;
/** What a message shows, some times over. */
const FEW = 300;

interface Watched {
  readonly value: Json;
  readonly numLooks: () => number;
}

/** A list, or an object, of `numItems` equal items that counts how often one of them is read. */
function watched(item: unknown, numItems: number, isObject = false): Watched {
  let numLooks = 0;
  const target = isObject
    ? Object.fromEntries(Array.from({ length: numItems }, (_, i) => [i, item]))
    : Array.from({ length: numItems }, () => item);
  const value = new Proxy(target, {
    get: (of, key, receiver): unknown => {
      if (typeof key === "string" && /^\d+$/.test(key)) numLooks++;
      return Reflect.get(of, key, receiver);
    },
  });
  return { value, numLooks: () => numLooks };
}

const user = (content: unknown): Json => ({ messages: [{ role: "user", content }] });
const CALLS = (tool_calls: unknown): Json => ({ messages: [{ role: "assistant", tool_calls }] });
const field = (name: string) => (value: unknown): Json => ({ ...HELLO, [name]: value });

/** Where a list can stand, and an item that is right there. */
const PLACES: Readonly<Record<string, readonly [body: (list: unknown) => Json, right: unknown, maxItems: number]>> = {
  stop: [field("stop"), "a", 16],
  bad_words: [field("bad_words"), "a", 256],
  dry_sequence_breakers: [field("dry_sequence_breakers"), "a", 32],
  stop_token_ids: [field("stop_token_ids"), 1, 262_144],
  allowed_token_ids: [field("allowed_token_ids"), 1, 262_144],
  messages: [(messages) => ({ messages }), { role: "user", content: "x" }, 8192],
  content: [user, { type: "text", text: "x" }, 8192],
  tool_calls: [CALLS, { id: "a", type: "function", function: { name: "f", arguments: "{}" } }, 1024],
  "a text prompt": [(prompt) => ({ prompt }), "x", 1024],
  "a prompt of ids": [(prompt) => ({ prompt }), 1, 262_144],
  tokens: [(tokens) => ({ tokens }), 1, 262_144],
};

function refusal(body: Json): ApiError {
  const schema = "prompt" in body ? CompletionRequest : "tokens" in body ? DetokenizeRequest : ChatCompletionRequest;
  return assertThrows(() => parseRequest<unknown>(schema, body), ApiError);
}

for (const [name, [body, right, maxItems]] of Object.entries(PLACES)) {
  Deno.test(`${name}: a list that is too long is refused without a look at its items`, () => {
    const { value, numLooks } = watched(right, maxItems + 1000);
    const { status, message } = refusal(body(value));
    assertEquals(status, 400);
    assertStringIncludes(message, String(maxItems));
    assert(numLooks() < FEW, `${numLooks()} looks`);
  });
}

for (const [name, [body, right, maxItems]] of Object.entries(PLACES)) {
  // A prompt's first item says what all are.
  if (name === "a text prompt" || name === "a prompt of ids") continue;
  Deno.test(`${name}: a list is looked at no further than its first wrong item`, () => {
    const { value, numLooks } = watched(true, Math.min(NUM_ITEMS, maxItems));
    const { status } = refusal(body(value));
    assertEquals(status, 400);
    assert(numLooks() < FEW, `${numLooks()} looks`);
    const [ok, wrong] = [body([right]), body([right, true])];
    const schema = name === "tokens" ? DetokenizeRequest : ChatCompletionRequest;
    parseRequest<unknown>(schema, ok);
    assertStringIncludes(refusal(wrong).message, "[1]");
  });
}

Deno.test("logit_bias is looked at no further than its first wrong value", () => {
  const { value, numLooks } = watched("x", 60_000, true);
  const { status, message } = refusal({ ...HELLO, logit_bias: value });
  assertEquals([status, message], [400, 'logit_bias.0: must be a number from -100 to 100; found "x"']);
  assert(numLooks() < FEW, `${numLooks()} looks`);
  assertEquals(refusal({ ...HELLO, logit_bias: { 3: 100.5 } }).status, 422);
});

Deno.test("a list where none belongs is shown by its beginning", () => {
  for (const name of ["temperature", "stream_options", "model", "max_tokens", "speculative", "seed"]) {
    const { value, numLooks } = watched("x", NUM_ITEMS);
    const { message, param } = refusal({ ...HELLO, [name]: value });
    assertEquals(param, name);
    assertStringIncludes(message, 'found ["x","x",');
    assert(numLooks() < FEW, `${name}: ${numLooks()} looks`);
  }
});

Deno.test("what an item holds beyond its schema is left out, and what is wrong within it is told with its place", () => {
  const messages = [{ role: "user", content: [{ type: "text", text: "a", extra: 1 }], extra: 2 }];
  assertEquals(parseRequest(ChatCompletionRequest, { messages }).messages, [{ role: "user", content: [{ type: "text", text: "a" }] }]);
  assertStringIncludes(
    refusal(user([{ type: "text", text: "a" }, { type: "text", text: 5 }])).message,
    "messages[0].content[1].text: must be",
  );
});

Deno.test("token ids beyond 2^53 are refused wherever they stand, not rounded to others", async () => {
  const { post } = testApp(new FakeEngine());
  const digits = "9007199254740993";
  const chat = (text: string): string => `{"messages":[{"role":"user","content":"x"}],${text}}`;
  const cases: readonly (readonly [path: string, body: string])[] = [
    ["/v1/chat/completions", chat(`"stop_token_ids":[${digits}]`)],
    ["/v1/chat/completions", chat(`"allowed_token_ids":[${digits}]`)],
    ["/v1/chat/completions", chat(`"logit_bias":{"${digits}":1}`)],
    ["/v1/chat/completions", chat(`"n":${digits}`)],
    ["/v1/completions", `{"prompt":[${digits}]}`],
    ["/v1/completions", `{"prompt":[[${digits}]]}`],
    ["/v1/completions", `{"prompt":"x","logprobs":${digits}}`],
    ["/detokenize", `{"tokens":[${digits}]}`],
  ];
  for (const [path, body] of cases) {
    const response = await post(path, body);
    await response.body?.cancel();
    assertEquals([body, response.status], [body, 422]);
  }
});
