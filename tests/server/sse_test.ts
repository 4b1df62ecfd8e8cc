import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import fc from "fast-check";
import { formatEvent } from "../../src/server/sse.ts";
import { BrokenOffError, streamedBody, type TextSource } from "../../src/server/streamed_body.ts";
import { encodeUtf8 } from "../../src/server/utf8_arena.ts";
import { FakeEngine, HELLO, say, testApp, tick } from "./fakes.ts";

const CHAT = "/v1/chat/completions";
const decoder = new TextDecoder();

/** Gives what a test puts into it. */
class TestSource implements TextSource {
  isEnded = false;
  isBroken = false;
  numAsked = 0;
  #text = "";
  #end: "open" | "ended" | "broken" = "open";
  #listener = (): void => {};

  /** @param end what comes after it. */
  put(text: string, end: "open" | "ended" | "broken" = "open"): void {
    this.#text += text;
    this.#end = end;
    this.#listener();
  }

  onNews(listener: () => void): void {
    this.#listener = listener;
  }

  take(): string {
    this.numAsked++;
    const text = this.#text;
    this.#text = "";
    this.isEnded = this.#end !== "open";
    this.isBroken = this.#end === "broken";
    return text;
  }
}

function body(source: TextSource, keepAliveMs = 1000, onCancel = (): void => {}): ReadableStream<Uint8Array> {
  return streamedBody(source, { keepAlive: ": keep-alive\n\n", keepAliveMs, onCancel });
}

Deno.test("an event is one line of data and a blank line, whatever the text holds", () => {
  assertEquals(formatEvent(JSON.stringify({ a: "x\r\ny\u2028" })), 'data: {"a":"x\\r\\ny\u2028"}\n\n');
});

Deno.test("nothing is asked of the source before the reader asks, and what has come by then is one piece", async () => {
  const source = new TestSource();
  const reader = body(source).getReader();
  source.put("a");
  await tick();
  assertEquals(source.numAsked, 0);
  assertEquals(decoder.decode((await reader.read()).value), "a");
  source.put("b");
  source.put("c", "ended");
  await tick();
  assertEquals(source.numAsked, 1);
  assertEquals([decoder.decode((await reader.read()).value), (await reader.read()).done], ["bc", true]);
});

Deno.test("a reader that waits gets news at once, and the end with them", async () => {
  const source = new TestSource();
  const text = new Response(body(source)).text();
  for (const piece of ["a", "b", "c"]) {
    await tick(1);
    source.put(piece);
  }
  await tick(1);
  source.put("", "ended");
  assertEquals(await text, "abc");
});

Deno.test("silence is filled, and no text is lost by that", async () => {
  const source = new TestSource();
  const text = new Response(body(source, 10)).text();
  await tick(35);
  source.put("late", "ended");
  assertMatch(await text, /^(: keep-alive\n\n){1,4}late$/);
});

Deno.test("text that comes often enough is no silence", async () => {
  // Long enough for a busy machine, which may stop this thread for some of it.
  const keepAliveMs = 400;
  const source = new TestSource();
  const text = new Response(body(source, keepAliveMs)).text();
  const startMs = performance.now();
  let numTexts = 0;
  for (; performance.now() - startMs < 1.5 * keepAliveMs; numTexts++) {
    await tick(15);
    source.put("x");
  }
  source.put("", "ended");
  assertEquals(await text, "x".repeat(numTexts));
});

Deno.test("a body that is broken off gives its last text and then an error, no end", async () => {
  const source = new TestSource();
  const reader = body(source).getReader();
  source.put("the reason", "broken");
  assertEquals(decoder.decode((await reader.read()).value), "the reason");
  await assertRejects(() => reader.read(), BrokenOffError);
});

Deno.test("a reader that leaves is told once, and nothing is asked any more", async () => {
  const events: string[] = [];
  const source = new TestSource();
  const reader = body(source, 1000, () => events.push("cancelled")).getReader();
  source.put("x");
  await reader.read();
  await reader.cancel();
  source.put("y");
  assertEquals([events, source.numAsked], [["cancelled"], 1]);
});

Deno.test("a stream that waits long for its first token has its status and comments before it", async () => {
  const engine = new FakeEngine(() => ({ tokens: [], isStalled: true }));
  const response = await testApp(engine, { keepAliveMs: 10 }).post(CHAT, { ...HELLO, stream: true });
  assertEquals(response.status, 200);
  const reader = response.body!.getReader();
  assertMatch(decoder.decode((await reader.read()).value), /"role":"assistant"/);
  assertEquals(decoder.decode((await reader.read()).value), ": keep-alive\n\n");
  await reader.cancel();
  assertEquals(engine.numLive, 0);
});

Deno.test("a client that leaves frees its row, before the first read, between tokens and while nothing comes", async () => {
  for (const numReads of [0, 1, 3]) {
    const engine = new FakeEngine(() => ({ tokens: say("abc").slice(0, 3), isStalled: true }));
    const { post, app, log, get } = testApp(engine);
    const reader = (await post(CHAT, { ...HELLO, stream: true, n: 2 })).body!.getReader();
    for (let i = 0; i < numReads; i++) await reader.read();
    await reader.cancel();
    assertEquals([engine.numLive, engine.cancelled.length, app.numLive], [0, 2, 0]);
    assertMatch(log[0]!, /499 .* disconnected/);
    assertMatch(await (await get("/metrics")).text(), /rowlock_disconnects_total 1\nrowlock|rowlock_disconnects_total 1\n/);
  }
});

Deno.test("a client that leaves a request that is no stream frees its row", async () => {
  const engine = new FakeEngine(() => ({ tokens: [], isStalled: true }));
  const { app } = testApp(engine);
  const client = new AbortController();
  const request = new Request(`http://localhost${CHAT}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(HELLO),
    signal: client.signal,
  });
  const response = app.fetch(request);
  await tick();
  assertEquals(engine.numLive, 1);
  client.abort();
  await (await response).body?.cancel();
  assertEquals([engine.numLive, app.numLive], [0, 0]);
});

Deno.test("what a slow reader has not taken is merged, and the row ends without it", async () => {
  const engine = new FakeEngine(() => ({ tokens: say("0123456789"), tokensPerStep: 1 }));
  const { post } = testApp(engine);
  const reader = (await post(CHAT, { ...HELLO, stream: true })).body!.getReader();
  for (let i = 0; i < 200 && engine.numLive > 0; i++) await tick();
  assertEquals(engine.numLive, 0);
  const texts: string[] = [];
  for (let part = await reader.read(); !part.done; part = await reader.read()) texts.push(decoder.decode(part.value));
  assertEquals(texts.length, 1);
  assertMatch(texts[0]!, /"role":"assistant"[^]*"content":"0123456789"[^]*"finish_reason":"stop"[^]*data: \[DONE\]\n\n$/);
});

Deno.test("text becomes its bytes, and those that were handed out stay what they are", () => {
  fc.assert(fc.property(fc.array(fc.tuple(fc.string({ unit: "binary" }), fc.nat(400)), { maxLength: 40 }), (parts) => {
    const texts = parts.map(([text, times]) => text.repeat(times));
    const bytes = texts.map(encodeUtf8);
    assertEquals(bytes.map((one) => [...one]), texts.map((text) => [...new TextEncoder().encode(text)]));
  }));
});
