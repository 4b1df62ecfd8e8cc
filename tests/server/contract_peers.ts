/** Faults seen on other servers: rows R1 to R33 of the contract. */
import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { FakeEngine, type Json, say, testApp } from "./fakes.ts";
import { answers, CHAT, COMPLETIONS, HI, raw, refused, type Row, same, send, stream } from "./contract_row.ts";

export const PEER_ROWS: readonly Row[] = [
  { id: "R1", fault: "top_k beyond the vocabulary is off", check: same({ top_k: 100_000 }, {}) },
  { id: "R2", fault: "a bias outside the vocabulary is refused", check: refused(422, "logit_bias", { logit_bias: { "999999": 100 } }) },
  { id: "R3", fault: "stop ids in place of texts are refused", check: refused(400, "stop", { stop: [1, 2] }) },
  {
    id: "R4",
    fault: "two prompts have two choices",
    check: answers([[0, "Hello", "stop"], [1, "Hello", "stop"]], { prompt: ["a", "b"] }, COMPLETIONS),
  },
  { id: "R5", fault: "an empty prompt without a BOS token is refused", check: refused(400, "prompt", { prompt: "" }, COMPLETIONS) },
  { id: "R6", fault: "a prompt of ids is served", check: answers(HI, { prompt: [1, 2, 3] }, COMPLETIONS) },
  { id: "R7", fault: "a seed beyond 64 bits is refused", check: refused(422, "seed", raw('"seed":1180591620717411303424')) },
  {
    id: "R8, 3, 4",
    fault: "null is the same as nothing",
    check: same({ temperature: null, max_tokens: null, top_p: null, stream: null, seed: null, stop: null }, {}),
  },
  {
    id: "R9, 2",
    fault: "top_p 0 keeps the best token and is not off",
    check: async (app) => {
      await send(app, { top_p: 0 });
      assertEquals(app.engine.requests[0]!.sampling.topP, 0);
    },
  },
  {
    id: "R10",
    fault: "min_p 1 reaches the row at any temperature",
    check: async (app) => {
      await send(app, { min_p: 1, temperature: 5 });
      assertEquals([app.engine.requests[0]!.sampling.minP, app.engine.requests[0]!.sampling.temperature], [1, 5]);
    },
  },
  {
    id: "R11",
    fault: "a stop string cuts",
    check: answers([[0, "one, two, ", "stop"]], { stop: ["three"] }),
    tokens: say("one, two, three, four"),
  },
  { id: "R12", fault: "n has n choices", check: answers([[0, "Hello", "stop"], [1, "Hello", "stop"]], { n: 2 }) },
  { id: "R13", fault: "NaN is no JSON", check: refused(400, null, raw('"temperature":NaN')) },
  { id: "R14", fault: "NaN in a bias is no JSON", check: refused(400, null, raw('"logit_bias":{"1":NaN}')) },
  {
    id: "R15, 37",
    fault: "half a surrogate pair is refused",
    check: refused(400, "messages[0].content", '{"messages":[{"role":"user","content":"\\ud83d"}]}'),
  },
  { id: "R16, 35", fault: "no messages are refused", check: refused(400, "messages", { messages: [] }) },
  {
    id: "R17, 57",
    fault: "a format that cannot be enforced is refused, not ignored",
    check: async (app) => {
      for (
        const fields of [{ response_format: { type: "json_schema", json_schema: { name: "x", schema: {} } } }, { tool_choice: "required" }]
      ) {
        await refused(400, Object.keys(fields)[0]!, fields)(app);
      }
    },
  },
  {
    id: "R18, 20",
    fault: "stream_options without include_usage: a normal stream, no usage",
    check: async (app) => {
      const { text, events } = await stream(app, { stream_options: {} });
      assertEquals(text.split("data: [DONE]\n\n").length, 2);
      assertEquals(events.filter((event) => event.choices.length === 0 || "usage" in event), []);
    },
  },
  {
    id: "R19, 21",
    fault: "the usage chunk is a chunk, with no choices",
    check: async (app) => {
      const { events } = await stream(app, { stream_options: { include_usage: true } });
      assertEquals([events.at(-1).object, events.at(-1).choices, events.at(-1).usage.completion_tokens], ["chat.completion.chunk", [], 6]);
    },
  },
  {
    id: "R20",
    fault: "a line feed's token is its text and bytes",
    tokens: say("\n"),
    check: async (app) => {
      const { json } = await send(app, { logprobs: true });
      const { token, bytes } = json.choices[0].logprobs.content[0];
      assertEquals([token, bytes], ["\n", [10]]);
    },
  },
  {
    id: "R21, 30, 31",
    fault: "top_logprobs 20 has 20, in the chat's own shape",
    check: async (app) => {
      const { json } = await send(app, { logprobs: true, top_logprobs: 20 });
      assertEquals(json.choices[0].logprobs.content.map((entry: Json) => entry.top_logprobs.length), [20, 20, 20, 20, 20]);
    },
  },
  {
    id: "R22, 29",
    fault: "logprobs are in the chunks",
    check: async (app) => {
      const { events } = await stream(app, { logprobs: true });
      assertEquals(events.flatMap((event) => event.choices[0].logprobs?.content ?? []).length, 5);
    },
  },
  {
    id: "R23",
    fault: "HEAD is answered without a body",
    check: async (app) => {
      const response = await app.get("/v1/models", { method: "HEAD" });
      assertEquals([response.status, await response.text()], [200, ""]);
    },
  },
  {
    id: "R24",
    fault: "max_tokens 2^70 is cut to the context",
    check: async (app) => {
      await send(app, { max_tokens: 2 ** 70 });
      const { maxTokens, promptIds } = app.engine.requests[0]!;
      assertEquals(maxTokens + promptIds.length, 256);
    },
  },
  {
    id: "R25, R26, R27, 63",
    fault: "an unseeded request after or beside a seeded one has a seed of its own",
    check: async () => {
      const app = testApp(new FakeEngine(), { randomSeed: () => crypto.getRandomValues(new BigUint64Array(1))[0]! });
      await Promise.all([send(app, { seed: 5 }), send(app, {}), send(app, {})]);
      const [seeded, first, second] = app.engine.requests.map(({ sampling }) => sampling.seed);
      assertEquals(seeded, 5n);
      assertNotEquals(first, 5n);
      assertNotEquals(first, second);
    },
  },
  {
    id: "R29",
    fault: "numbers outside their domain are refused",
    check: async (app) => {
      await refused(422, "temperature", { temperature: -1 })(app);
      await refused(422, "top_p", { top_p: 1.5 })(app);
    },
  },
  {
    id: "R30",
    fault: "every error has the one shape",
    check: async (app) => {
      for (
        const response of [
          await app.get("/nowhere"),
          await app.get(CHAT),
          await app.post(CHAT, "{"),
          await app.post(CHAT, "{}", { "content-type": "a/b" }),
        ]
      ) {
        assertEquals(Object.keys((await response.json()).error), ["message", "type", "param", "code"]);
        assertMatch(response.headers.get("x-request-id")!, /^req_/);
      }
    },
  },
  { id: "R31", fault: "an answer of white space stays", check: answers([[0, " \n\t", "stop"]], {}), tokens: say(" \n\t") },
  {
    id: "R32",
    fault: "a client's template is refused",
    check: refused(400, "chat_template_kwargs", { chat_template_kwargs: { chat_template: "x" } }),
  },
  { id: "R33", fault: "echo puts the prompt first", check: answers([[0, "abcHello", "stop"]], { prompt: "abc", echo: true }, COMPLETIONS) },
];
