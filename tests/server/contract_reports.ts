/** Faults from public reports: the numbered rows of the contract. */
import { assertEquals, assertMatch } from "@std/assert";
import { BOS, ByteTokenizer, FakeEngine, HELLO, type Json, say, testApp } from "./fakes.ts";
import { answers, CHAT, COMPLETIONS, HI, refused, type Row, same, send, stream } from "./contract_row.ts";

export const PUBLIC_ROWS: readonly Row[] = [
  { id: "1", fault: "top_p 1 is off", check: same({ top_p: 1 }, {}) },
  {
    id: "5, 6",
    fault: "max_completion_tokens is honoured and says length",
    check: answers([[0, "Hel", "length"]], { max_completion_tokens: 3 }),
  },
  {
    id: "7",
    fault: "max_tokens 0 with echo scores and generates nothing",
    check: async (app) => {
      const { json } = await send(app, { prompt: "ab", max_tokens: 0, echo: true, logprobs: 1 }, COMPLETIONS);
      assertEquals([json.choices[0].text, json.choices[0].logprobs.tokens, json.usage.completion_tokens], ["ab", ["a", "b"], 0]);
    },
  },
  ...([
    ["8, 11", "alpha beta gamma delta", ["beta gamma"], "alpha "],
    ["9", "The quick brown fox", ["own fox"], "The quick br"],
    ["10", "ABCDEFGHIJKL", "DEFGHIJ", "ABC"],
    ["13", "an interesting detail", ["interested"], "an interesting detail"],
  ] as const).map(([id, said, stop, expected]): Row => ({
    id,
    fault: `the stop ${JSON.stringify(stop)} leaks nothing and takes nothing, streamed or not`,
    tokens: say(said),
    check: async (app) => {
      const { events } = await stream(app, { stop });
      assertEquals(events.map((event) => event.choices[0].delta.content ?? "").join(""), expected);
      assertEquals([events.at(-1).choices[0].finish_reason, (await send(app, { stop })).json.choices[0].message.content], [
        "stop",
        expected,
      ]);
    },
  })),
  {
    id: "17, 18",
    fault: "an emoji of four tokens comes whole, and its bytes are in the logprobs",
    tokens: say("a🎉"),
    check: async (app) => {
      const { events, text } = await stream(app, { logprobs: true });
      assertEquals([text.includes("\ufffd"), events.some((event) => event.choices[0].delta.content === "🎉")], [false, true]);
      const bytes = events.flatMap((event) => event.choices[0].logprobs?.content ?? []).flatMap((entry: Json) => entry.bytes);
      assertEquals(new TextDecoder().decode(Uint8Array.from(bytes)), "a🎉");
    },
  },
  { id: "23", fault: "stream_options without stream are no error", check: answers(HI, { stream_options: { include_usage: true } }) },
  {
    id: "33",
    fault: "echoed ids are the exact text, the first without a logprob",
    check: async () => {
      const app = testApp(new FakeEngine(), {}, { tokenizer: new ByteTokenizer(BOS) });
      const { json } = await send(app, { prompt: [104, 195, 169], echo: true, logprobs: 1, max_tokens: 1 }, COMPLETIONS);
      assertEquals([json.choices[0].text, json.choices[0].logprobs.token_logprobs[0]], ["héH", null]);
    },
  },
  {
    id: "34",
    fault: "a chunk's index is its choice",
    check: async (app) => {
      const { events } = await stream(app, { n: 2 });
      for (const index of [0, 1]) {
        const own = events.flatMap(({ choices }) => choices).filter((choice: Json) => choice.index === index);
        assertEquals([own.map(({ delta }: Json) => delta.content ?? "").join(""), own.at(-1).finish_reason], ["Hello", "stop"]);
      }
    },
  },
  {
    id: "38",
    fault: "content parts are joined",
    check: answers(HI, { messages: [{ role: "user", content: [{ type: "text", text: "Hi" }] }] }),
  },
  {
    id: "40",
    fault: "the parts of an assistant's beginning are kept",
    check: async (app) => {
      const parts = [{ type: "text", text: "Su" }, { type: "text", text: "re" }];
      await send(app, { messages: [{ role: "user", content: "x" }, { role: "assistant", content: parts }] });
      assertMatch(
        new TextDecoder().decode(Uint8Array.from([...app.engine.requests[0]!.promptIds].filter((id) => id < 256))),
        /assistant\nSure$/,
      );
    },
  },
  {
    id: "41",
    fault: "an assistant's tool calls need no content key",
    check: answers(HI, {
      messages: [{ role: "user", content: "x" }, {
        role: "assistant",
        tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }],
      }, { role: "tool", tool_call_id: "1", content: "y" }],
    }),
  },
  { id: "43", fault: "another model's name is 404 and looked for nowhere", check: refused(404, "model", { model: "qwen" }) },
  {
    id: "44",
    fault: "a prompt beyond the context is 400 with code and numbers",
    check: async (app) => {
      const { status, json } = await send(app, { messages: [{ role: "user", content: "a".repeat(300) }] });
      assertEquals([status, json.error.code], [400, "context_length_exceeded"]);
      assertMatch(json.error.message, /256 tokens.*3\d\d tokens/);
    },
  },
  {
    id: "45",
    fault: "a preflight passes without a key and allows the Authorization header",
    check: async () => {
      const app = testApp(new FakeEngine(), { apiKeys: ["k"], allowOrigins: ["http://ui.home"] });
      const headers = {
        origin: "http://ui.home",
        "access-control-request-method": "GET",
        "access-control-request-headers": "authorization",
      };
      const response = await app.get("/v1/models", { method: "OPTIONS", headers });
      assertEquals([response.status, response.headers.get("access-control-allow-headers")], [204, "authorization"]);
      assertEquals((await app.get("/v1/models", { headers: { origin: "http://ui.home", authorization: "Bearer k" } })).status, 200);
    },
  },
  {
    id: "50",
    fault: "a stream that fails before its first token has an error status",
    check: async () => {
      const response = await testApp(new FakeEngine(() => ({ tokens: [], error: "row_broken" }))).post(CHAT, { ...HELLO, stream: true });
      assertEquals([response.status, (await response.json()).error.code], [500, "row_broken"]);
    },
  },
  { id: "68", fault: "penalties of 0 are off", check: same({ presence_penalty: 0, frequency_penalty: 0, repetition_penalty: 0 }, {}) },
];
