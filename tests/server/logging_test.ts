import { assertEquals, assertMatch } from "@std/assert";
import { formatRecord } from "../../src/server/logging.ts";
import { FakeEngine, HELLO, say, testApp } from "./fakes.ts";

const RECORD = { requestId: "req_1", method: "POST", path: "/v1/completions", status: 200, durationMs: 812.4, outcome: "ok" };
const TIME_MS = Date.UTC(2026, 0, 2, 3, 4, 5);

Deno.test("a line for a person has what is known, in order", () => {
  assertEquals(formatRecord(RECORD, "text", TIME_MS), "03:04:05  POST  /v1/completions  200  812 ms  req_1");
  assertEquals(
    formatRecord(
      {
        ...RECORD,
        outcome: "disconnected",
        promptTokens: 5,
        completionTokens: 7,
        queueMs: 1.2,
        prefillMs: 2.6,
        decodeMs: null,
        tokensPerSecond: 27.06,
      },
      "text",
      TIME_MS,
    ),
    "03:04:05  POST  /v1/completions  200  812 ms  disconnected  prompt 5  generated 7  queue 1 ms  prefill 3 ms  27.1 tok/s  req_1",
  );
});

Deno.test("what a client sent cannot break the line or move the cursor, in both formats", () => {
  const record = { ...RECORD, path: "/a\r\nb\u001b[2J\u2028\u202e", error: "x\ny" };
  for (const format of ["text", "json"] as const) {
    assertEquals(/[\p{Cc}\p{Cf}\u2028]/u.test(formatRecord(record, format, TIME_MS)), false);
  }
  assertEquals(JSON.parse(formatRecord(record, "json", TIME_MS)), { time: "2026-01-02T03:04:05.000Z", ...record });
});

Deno.test("every request has one line, a stream's when it has ended", async () => {
  const { post, log } = testApp(new FakeEngine(() => ({ tokens: say("ab") })), { logFormat: "json" });
  const response = await post("/v1/chat/completions", { ...HELLO, stream: true });
  assertEquals(log, []);
  await response.text();
  assertEquals(log.length, 1);
  const { requestId, outcome, promptTokens, completionTokens, queueMs, decodeMs, tokensPerSecond } = JSON.parse(log[0]!);
  assertEquals([requestId, outcome, promptTokens, completionTokens], ["req_id0", "ok", 21, 3]);
  assertEquals([queueMs, decodeMs, tokensPerSecond], [1, 4, 750]);
});

Deno.test("an answer that a stop string or its client ends has its times too, in the log and in the answer", async () => {
  for (const logFormat of ["text", "json"] as const) {
    const { post, log } = testApp(new FakeEngine(() => ({ tokens: say("one two three") })), { logFormat });
    const { timings } = await (await post("/v1/chat/completions", { ...HELLO, stop: "two" })).json();
    assertEquals([timings.queue_ms, timings.prefill_ms], [1, 2]);
    assertEquals(timings.decode_ms > 0 && timings.tokens_per_second > 0, true);
    const response = await post("/v1/chat/completions", { ...HELLO, stream: true });
    const reader = response.body!.getReader();
    for (let i = 0; i < 3; i++) await reader.read();
    await reader.cancel();
    for (const line of log) {
      if (logFormat === "json") {
        const { queueMs, prefillMs, decodeMs } = JSON.parse(line);
        assertEquals([queueMs, prefillMs, decodeMs > 0], [1, 2, true]);
      } else assertEquals(/ {2}queue 1 ms {2}prefill 2 ms {2}decode \d+ ms {2}[\d.]+ tok\/s {2}req_id\d$/.test(line), true, line);
    }
    assertEquals([log.length, log[1]!.includes("disconnected")], [2, true]);
  }
});

Deno.test("times in the log have one decimal, without the noise of floats", async () => {
  const engine = new FakeEngine(() => ({ tokens: say("one two three") }));
  let nowMs = 1_700_000_000_000.1;
  const { post, log } = testApp(engine, { logFormat: "json", nowMs: () => nowMs += 1 / 3 });
  await (await post("/v1/chat/completions", { ...HELLO, stop: "two" })).text();
  const { durationMs, decodeMs, tokensPerSecond } = JSON.parse(log[0]!);
  for (const value of [durationMs, decodeMs, tokensPerSecond]) assertMatch(String(value), /^\d+(\.\d)?$/);
});
