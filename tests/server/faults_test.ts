import { assertEquals, assertMatch } from "@std/assert";
import { EngineError } from "../../src/engine/engine.ts";
import type { EngineErrorCode } from "../../src/engine/messages.ts";
import { EOS, eventsOf, FakeEngine, HELLO, say, testApp, tick } from "./fakes.ts";

const CHAT = "/v1/chat/completions";

Deno.test("what the engine says goes wrong has its status, before any byte of a stream too", async () => {
  const cases: [EngineErrorCode, number, string | null, string | null][] = [
    ["queue_full", 429, "1", null],
    ["row_broken", 500, null, "false"],
    ["engine_error", 500, null, "false"],
    ["out_of_memory", 503, "1", null],
    ["shutting_down", 503, "1", null],
  ];
  for (const [code, status, retryAfter, shouldRetry] of cases) {
    for (const stream of [false, true]) {
      const { post } = testApp(new FakeEngine(() => ({ tokens: [], error: code })));
      const response = await post(CHAT, { ...HELLO, stream });
      const { headers } = response;
      assertEquals([response.status, headers.get("retry-after"), headers.get("x-should-retry")], [status, retryAfter, shouldRetry]);
      assertEquals(headers.get("content-type"), "application/json");
      assertEquals((await response.json()).error.code, code);
    }
  }
});

Deno.test("an error after the first byte is an event, then the stream ends with one [DONE]", async () => {
  const { post, log, app } = testApp(new FakeEngine(() => ({ tokens: [97, 98], error: "row_broken" })));
  const response = await post(CHAT, { ...HELLO, stream: true });
  assertEquals(response.status, 200);
  const text = await response.text();
  assertEquals(eventsOf(text).at(-1), {
    error: { message: "The engine says row_broken", type: "server_error", param: null, code: "row_broken" },
  });
  assertEquals(text.split("data: [DONE]\n\n").length, 2);
  assertEquals(eventsOf(text).some((event) => event.choices?.[0].finish_reason), false);
  assertMatch(log[0]!, /200 .* row_broken/);
  assertEquals(app.numLive, 0);
});

Deno.test("a choice that fails ends its request and cancels the others of it", async () => {
  const engine = new FakeEngine((_request, index) =>
    index === 0 ? { tokens: [97], error: "row_broken" } : { tokens: [97], isStalled: true }
  );
  const response = await testApp(engine).post(CHAT, { ...HELLO, n: 3 });
  assertEquals(response.status, 500);
  await response.body?.cancel();
  assertEquals([engine.numLive, engine.cancelled.length], [0, 2]);
});

Deno.test("an unexpected error is a plain 500 whose text only the log has", async () => {
  const engine = new FakeEngine();
  engine.script = () => {
    throw new TypeError("secret detail");
  };
  const { post, log, get } = testApp(engine);
  const response = await post(CHAT, HELLO);
  assertEquals([response.status, response.headers.get("x-should-retry")], [500, "false"]);
  assertEquals((await response.json()).error, {
    message: "Internal server error",
    type: "server_error",
    param: null,
    code: "internal_error",
  });
  assertMatch(log[0]!, /secret detail/);
  assertMatch(await (await get("/metrics")).text(), /rowlock_sequences_live 0/);
});

Deno.test("an engine that is down is 503 with the reason, and health says it", async () => {
  const engine = new FakeEngine();
  engine.health = { ok: false, reason: "The model is loading" };
  const { post, get } = testApp(engine);
  const response = await post(CHAT, HELLO);
  assertEquals(response.status, 503);
  assertMatch((await response.json()).error.message, /The model is loading/);
  const health = await get("/health");
  assertEquals([health.status, await health.json()], [503, {
    status: "unavailable",
    reason: "The model is loading",
    models: [{ id: "test/tiny", status: "loaded", reason: "The model is loading" }],
  }]);
  engine.health = { ok: true, reason: "ok" };
  assertEquals((await get("/health")).status, 200);
});

Deno.test("beyond rows and queue requests are 429 with Retry-After, and places come back", async () => {
  const engine = new FakeEngine(() => ({ tokens: [97], isStalled: true }));
  const { post } = testApp(engine, { maxBatch: 1, maxQueue: 2 });
  const first = await post(CHAT, { ...HELLO, stream: true, n: 2 });
  const full = await post(CHAT, { ...HELLO, n: 2 });
  assertEquals([full.status, full.headers.get("retry-after")], [429, "2"]);
  const { error } = await full.json();
  assertEquals([error.type, error.code], ["rate_limit_error", "queue_full"]);
  assertMatch(error.message, /2 of 3 sequences/);
  const never = await post(CHAT, { ...HELLO, n: 4 });
  assertEquals([never.status, (await never.json()).error.param], [400, "n"]);
  await first.body!.cancel();
  engine.script = () => ({ tokens: say("ok") });
  assertEquals((await post(CHAT, { ...HELLO, n: 3 })).status, 200);
});

Deno.test("a request that takes too long is ended with 504", async () => {
  const engine = new FakeEngine(() => ({ tokens: [97], isStalled: true }));
  const { post, app } = testApp(engine, { requestTimeoutMs: 20 });
  const response = await post(CHAT, HELLO);
  assertEquals([response.status, (await response.json()).error.code], [504, "request_timeout"]);
  const text = await (await post(CHAT, { ...HELLO, stream: true })).text();
  assertEquals(eventsOf(text).at(-1).error.code, "request_timeout");
  assertEquals([engine.numLive, app.numLive], [0, 0]);
});

Deno.test("a drained app refuses new requests, lets old ones end and can end them with an error event", async () => {
  const engine = new FakeEngine(() => ({ tokens: [97], isStalled: true }));
  const { post, app, get } = testApp(engine);
  const running = await post(CHAT, { ...HELLO, stream: true });
  app.drain();
  const refused = await post(CHAT, HELLO);
  assertEquals([refused.status, (await refused.json()).error.code], [503, "shutting_down"]);
  assertEquals((await get("/health")).status, 503);
  assertEquals(app.numLive, 1);
  app.abortAll(new EngineError("shutting_down", "The server is shutting down"));
  const text = await running.text();
  assertEquals(eventsOf(text).at(-1).error.code, "shutting_down");
  assertMatch(text, /data: \[DONE\]\n\n$/);
  assertEquals([app.numLive, engine.numLive], [0, 0]);
});

Deno.test("a stop token among the last tokens of a failing row is not taken for an answer", async () => {
  const { post } = testApp(new FakeEngine(() => ({ tokens: [97, EOS], error: "engine_error" })));
  await tick();
  assertEquals((await post(CHAT, HELLO)).status, 500);
});
