import { assertEquals, assertMatch } from "@std/assert";
import { formatEvent, sseBody } from "../../src/server/sse.ts";
import { FakeEngine, HELLO, say, testApp, tick } from "./fakes.ts";

const CHAT = "/v1/chat/completions";
const decoder = new TextDecoder();

Deno.test("an event is one line of data and a blank line, whatever the text holds", () => {
  assertEquals(formatEvent({ a: "x\r\ny\u2028" }), 'data: {"a":"x\\r\\ny\u2028"}\n\n');
});

Deno.test("nothing is asked of the source before the reader asks", async () => {
  let numAsked = 0;
  async function* source(): AsyncGenerator<string> {
    for (const text of ["a", "b"]) {
      numAsked++;
      yield text;
    }
  }
  const reader = sseBody(source(), { keepAliveMs: 1000, onCancel: () => {} }).getReader();
  await tick();
  assertEquals(numAsked, 0);
  assertEquals(decoder.decode((await reader.read()).value), "a");
  await tick();
  assertEquals(numAsked, 1);
  assertEquals([decoder.decode((await reader.read()).value), (await reader.read()).done], ["b", true]);
});

Deno.test("silence is filled with comments, and no item is lost by them", async () => {
  async function* source(): AsyncGenerator<string> {
    await tick(35);
    yield "late";
  }
  const text = await new Response(sseBody(source(), { keepAliveMs: 10, onCancel: () => {} })).text();
  assertMatch(text, /^(: keep-alive\n\n){2,4}late$/);
});

Deno.test("a reader that leaves is told once, and the source is let go", async () => {
  const events: string[] = [];
  async function* source(): AsyncGenerator<string> {
    try {
      while (true) yield "x";
    } finally {
      events.push("source ended");
    }
  }
  const reader = sseBody(source(), { keepAliveMs: 1000, onCancel: () => events.push("cancelled") }).getReader();
  await reader.read();
  await reader.cancel();
  assertEquals(events, ["cancelled", "source ended"]);
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
  await tick(100);
  assertEquals(engine.numLive, 0);
  const texts: string[] = [];
  for (let part = await reader.read(); !part.done; part = await reader.read()) texts.push(decoder.decode(part.value));
  assertEquals(texts.length, 3);
  assertMatch(texts[1]!, /"content":"0123456789"/);
  assertMatch(texts[2]!, /^data: \[DONE\]\n\n$/);
});
