/** What only bytes on a socket can do: broken framing, pipelining, old protocol versions, huge headers, half-closed connections. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { FakeEngine, HELLO, say, tick } from "./fakes.ts";
import { RawConnection, rawPost, statusesOf, withFakeServer } from "./fake_server.ts";

const CHAT = "/v1/chat/completions";
const BODY = JSON.stringify(HELLO);
/** Deno keeps the connection of a body that never came: nobody waits for its end. */
const WHOLE_ERROR = /"code":"\w+"\}\}$/;
const CLOSE = { connection: "close" };

/** Sends `bytes` and reads all that comes back; afterwards the server must answer an ordinary request. */
async function exchange(
  bytes: string,
  options: { readonly isHalfClosed?: boolean; readonly wanted?: RegExp; readonly timeoutMs?: number; readonly engine?: FakeEngine } = {},
): Promise<string> {
  let text = "";
  const engine = options.engine ?? new FakeEngine();
  await withFakeServer(engine, { bodyTimeoutMs: 300 }, async ({ port }) => {
    using connection = await RawConnection.open(port);
    await connection.send(bytes);
    if (options.isHalfClosed) await connection.finishSending();
    text = await connection.read(options.wanted, options.timeoutMs);
    connection.close();
    using control = await RawConnection.open(port);
    await control.send(rawPost(CHAT, BODY, CLOSE));
    assertMatch(await control.read(), /^HTTP\/1\.1 200 OK\r\n[^]*"content":"(Hello|other)"/);
  });
  assertEquals(engine.numLive, 0);
  return text;
}

Deno.test("pipelined requests are answered in their order", async () => {
  const bodies = ["one", "two", "three"].map((content) => JSON.stringify({ messages: [{ role: "user", content }] }));
  const engine = new FakeEngine((request) => ({
    tokens: say(String.fromCharCode(...request.promptIds).includes("two") ? "second" : "other"),
  }));
  const text = await exchange(bodies.map((body, i) => rawPost(CHAT, body, i === 2 ? CLOSE : {})).join(""), { engine });
  assertEquals(statusesOf(text), [200, 200, 200]);
  assertEquals([...text.matchAll(/"content":"(\w+)"/g)].map((match) => match[1]), ["other", "second", "other"]);
});

Deno.test("an error does not end a connection that is kept alive", async () => {
  const text = await exchange(rawPost(CHAT, '{"messages":[]}') + rawPost(CHAT, BODY, CLOSE));
  assertEquals(statusesOf(text), [400, 200]);
});

Deno.test("a client of HTTP/1.0 gets its answer, streamed too, and the end of the connection", async () => {
  for (const stream of [false, true]) {
    const body = JSON.stringify({ ...HELLO, stream });
    const text = await exchange(rawPost(CHAT, body).replace("HTTP/1.1", "HTTP/1.0"));
    assertEquals(statusesOf(text), [200]);
    assert(!/transfer-encoding/i.test(text), text);
    assertMatch(text, stream ? /data: \[DONE\]\n\n$/ : /"finish_reason":"stop"/);
  }
});

Deno.test("a body in chunks is read", async () => {
  const chunks = [BODY.slice(0, 7), BODY.slice(7)].map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join("");
  const head = rawPost(CHAT, "", { "transfer-encoding": "chunked", ...CLOSE }).replace(/content-length: 0\r\n/, "");
  assertEquals(statusesOf(await exchange(`${head}${chunks}0\r\n\r\n`)), [200]);
  // Without its end it is late, like any body that does not come.
  const late = await exchange(`${head}${chunks}`, { wanted: WHOLE_ERROR });
  assertEquals(statusesOf(late), [408]);
  assertMatch(late, /"code":"body_timeout"/);
});

Deno.test("a body a byte shorter than it says is late, or broken off when the client stops sending", async () => {
  const short = rawPost(CHAT, BODY, { "content-length": String(BODY.length + 1), ...CLOSE });
  assertMatch(await exchange(short, { wanted: WHOLE_ERROR }), /^HTTP\/1\.1 408 [^]*"code":"body_timeout"/);
  assertMatch(await exchange(short, { isHalfClosed: true }), /^HTTP\/1\.1 400 [^]*"code":"incomplete_body"/);
});

Deno.test("bytes after the body are not taken for a request", async () => {
  const text = await exchange(`${rawPost(CHAT, BODY)}garbage\r\n\r\n`, { timeoutMs: 1000 });
  assertEquals(statusesOf(text)[0], 200);
  assert(statusesOf(text).length <= 2 && statusesOf(text).slice(1).every((status) => status === 400), text);
});

Deno.test("requests that contradict themselves about their length are refused", async () => {
  const both = rawPost(CHAT, BODY, { "content-length": "1, 5", ...CLOSE });
  assertEquals(statusesOf(await exchange(both)), [400]);
  const negative = rawPost(CHAT, BODY, { "content-length": "-1", ...CLOSE });
  assertEquals(statusesOf(await exchange(negative)), [400]);
});

Deno.test("what is no HTTP at all is refused or dropped", async () => {
  for (const bytes of ["\x16\x03\x01\x02\x00\x01\x00", "GET\r\n\r\n", "\0".repeat(1000), "POST /v1 HTTP/9.9\r\n\r\n"]) {
    const statuses = statusesOf(await exchange(bytes, { isHalfClosed: true, timeoutMs: 2000 }));
    assert(statuses.every((status) => status === 400), `found ${statuses} for ${JSON.stringify(bytes.slice(0, 20))}`);
  }
});

Deno.test("headers of 64 KB and more are refused", async () => {
  assertEquals(statusesOf(await exchange(rawPost(CHAT, BODY, { "x-much": "a".repeat(8 * 1024), ...CLOSE }))), [200]);
  assertEquals(statusesOf(await exchange(rawPost(CHAT, BODY, { "x-much": "a".repeat(64 * 1024), ...CLOSE }))), [400]);
  const many = Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`x-${i}`, "a"]));
  assert(statusesOf(await exchange(rawPost(CHAT, BODY, { ...many, ...CLOSE }))).every((status) => [400, 431].includes(status)));
});

Deno.test("a client that closes its half of the connection has gone: its row is free", async () => {
  for (const stream of [false, true]) {
    const engine = new FakeEngine(() => ({ tokens: [97], isStalled: true }));
    await withFakeServer(engine, {}, async ({ port }) => {
      using connection = await RawConnection.open(port);
      await connection.send(rawPost(CHAT, JSON.stringify({ ...HELLO, stream })));
      while (engine.requests.length === 0) await tick(2);
      await connection.finishSending();
      for (let i = 0; i < 200 && engine.numLive > 0; i++) await tick(5);
      assertEquals([engine.requests.length, engine.numLive], [1, 0]);
    });
  }
});

Deno.test("a body that arrives byte by byte within its time is served, and nobody waits for it", async () => {
  const engine = new FakeEngine();
  await withFakeServer(engine, {}, async ({ port }) => {
    using slow = await RawConnection.open(port);
    const request = rawPost(CHAT, BODY, CLOSE);
    await slow.send(request.slice(0, -20));
    for (const char of request.slice(-20, -1)) {
      await slow.send(char);
      await tick(2);
    }
    using quick = await RawConnection.open(port);
    await quick.send(rawPost(CHAT, BODY, CLOSE));
    assertEquals(statusesOf(await quick.read()), [200]);
    await slow.send(request.slice(-1));
    assertEquals(statusesOf(await slow.read()), [200]);
  });
});

Deno.test("300 clients that vanish at once, in the middle of a request or of an answer, leave nothing behind", async () => {
  const engine = new FakeEngine(() => ({ tokens: [97], isStalled: true }));
  await withFakeServer(engine, { maxQueue: 1000 }, async ({ port, app }) => {
    const request = rawPost(CHAT, JSON.stringify({ ...HELLO, stream: true }));
    const connections = await Promise.all(Array.from({ length: 300 }, () => RawConnection.open(port)));
    await Promise.all(connections.map((connection, i) => connection.send(i % 3 === 0 ? request.slice(0, -5) : request)));
    while (engine.requests.length < 200) await tick(2);
    for (const connection of connections) connection.close();
    for (let i = 0; i < 400 && engine.numLive > 0; i++) await tick(5);
    assertEquals([engine.requests.length, engine.numLive, app.numLive], [200, 0, 0]);
    engine.script = () => ({ tokens: say("Hello") });
    using control = await RawConnection.open(port);
    await control.send(rawPost(CHAT, BODY, CLOSE));
    assertEquals(statusesOf(await control.read()), [200]);
  });
});
