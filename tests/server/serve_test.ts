import { assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import OpenAI from "openai";
import type { ServerOptions } from "../../src/server/options.ts";
import { type RunningServer, serve } from "../../src/server/serve.ts";
import { RawConnection, rawPost, withFakeServer } from "./fake_server.ts";
import { eventsOf, FakeEngine, fakeModel, HELLO, say, tick } from "./fakes.ts";

async function withServer(
  engine: FakeEngine,
  options: Partial<ServerOptions>,
  body: (server: RunningServer, client: OpenAI) => Promise<void>,
): Promise<void> {
  const server = serve({ models: [{ model: fakeModel(), engine }], port: 0, options: { writeLog: null, ...options } });
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "key", maxRetries: 0 });
  try {
    await body(server, client);
  } finally {
    await server.drain(1000);
  }
}

/** The engine counts the row as free. */
async function untilFree(engine: FakeEngine): Promise<void> {
  for (let i = 0; i < 200 && engine.numLive > 0; i++) await tick(10);
  assertEquals(engine.numLive, 0);
}

const MESSAGES = HELLO.messages as [{ role: "user"; content: string }];

Deno.test("the official client chats, whole and streamed, with equal text", async () => {
  const engine = new FakeEngine(() => ({ tokens: say("Grüße 🎉") }));
  await withServer(engine, { apiKeys: ["key"] }, async (_server, client) => {
    const whole = await client.chat.completions.create({ model: "default", messages: MESSAGES, logprobs: true, top_logprobs: 2, n: 2 });
    assertEquals(whole.choices.map(({ message }) => message.content), ["Grüße 🎉", "Grüße 🎉"]);
    assertEquals(whole.choices[0]!.logprobs!.content!.length, 12);
    let text = "";
    let usage: unknown = null;
    const stream = await client.chat.completions.create({
      model: "default",
      messages: MESSAGES,
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      usage = chunk.usage ?? usage;
    }
    assertEquals(text, "Grüße 🎉");
    assertEquals((usage as { total_tokens: number }).total_tokens, 34);
  });
});

Deno.test("the official client's stream helper, completions and models work", async () => {
  await withServer(new FakeEngine(() => ({ tokens: say("fine") })), {}, async (_server, client) => {
    const helper = client.chat.completions.stream({ model: "default", messages: MESSAGES });
    assertEquals((await helper.finalChatCompletion()).choices[0]!.message.content, "fine");
    const completion = await client.completions.create({ model: "default", prompt: ["a", "b"], logprobs: 1 });
    assertEquals(completion.choices.map(({ text }) => text), ["fine", "fine"]);
    let text = "";
    for await (const chunk of await client.completions.create({ model: "default", prompt: "a", stream: true })) {
      text += chunk.choices[0]!.text;
    }
    assertEquals(text, "fine");
    const models = await client.models.list();
    assertEquals(models.data.map(({ id }) => id), ["test/tiny"]);
    assertEquals((await client.models.retrieve("test/tiny")).id, "test/tiny");
  });
});

Deno.test("the official client sees errors with their class, code and parameter, and mid-stream ones too", async () => {
  const engine = new FakeEngine(() => ({ tokens: [97], error: "row_broken" }));
  await withServer(engine, {}, async (_server, client) => {
    const create = (body: Record<string, unknown>) => () =>
      client.chat.completions.create({ model: "default", messages: MESSAGES, ...body });
    const range = await assertRejects(create({ temperature: -1 }), OpenAI.UnprocessableEntityError);
    assertEquals([range.status, range.param, range.code], [422, "temperature", "out_of_range"]);
    const missing = await assertRejects(create({ model: "gpt" }), OpenAI.NotFoundError);
    assertEquals([missing.code, typeof missing.requestID], ["model_not_found", "string"]);
    const stream = await client.chat.completions.create({ model: "default", messages: MESSAGES, stream: true });
    await assertRejects(
      async () => {
        for await (const _chunk of stream);
      },
      OpenAI.APIError,
      "row_broken",
    );
  });
});

Deno.test("a failed request is sent once by the official client, as it would fail again", async () => {
  const engine = new FakeEngine(() => ({ tokens: [], error: "engine_error" }));
  await withServer(engine, {}, async (server) => {
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "key", maxRetries: 2 });
    await assertRejects(() => client.chat.completions.create({ model: "default", messages: MESSAGES }), OpenAI.InternalServerError);
    assertEquals(engine.requests.length, 1);
  });
});

Deno.test("a client that closes its connection frees its row: streaming, waiting for the first token, and not streaming", async () => {
  const cases = [
    { stream: true, tokens: [97, 98] },
    { stream: true, tokens: [] },
    { stream: false, tokens: [97] },
  ];
  for (const { stream, tokens } of cases) {
    const engine = new FakeEngine(() => ({ tokens, isStalled: true }));
    await withServer(engine, {}, async (server) => {
      const abort = new AbortController();
      const fetched = fetch(`${server.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ ...HELLO, stream }),
        signal: abort.signal,
      }).then((response) => response.text());
      while (engine.requests.length === 0) await tick(5);
      await tick(30);
      assertEquals(engine.numLive, 1);
      abort.abort();
      await assertRejects(() => fetched);
      await untilFree(engine);
      await tick(20);
      assertMatch(await (await fetch(`${server.url}/metrics`)).text(), /rowlock_disconnects_total 1\n/);
    });
  }
});

Deno.test("a body that ends early, or never, hurts nobody", async () => {
  await withServer(new FakeEngine(), {}, async (server, client) => {
    for (const end of ["early", "never"]) {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
      const head =
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
      await connection.write(new TextEncoder().encode(head));
      if (end === "early") await connection.closeWrite();
      assertEquals((await client.chat.completions.create({ model: "default", messages: MESSAGES })).choices[0]!.message.content, "Hello");
      connection.close();
    }
  });
});

Deno.test("a foreign Host header is refused over a socket", async () => {
  await withServer(new FakeEngine(), {}, async (server) => {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
    await connection.write(new TextEncoder().encode("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"));
    assertMatch(await new Response(connection.readable).text(), /^HTTP\/1\.1 403 /);
  });
});

Deno.test("draining lets a stream end, and ends it with an error event when it takes too long", async () => {
  const finite = new FakeEngine(() => ({ tokens: say("a longer answer that takes a few steps") }));
  const stalled = new FakeEngine(() => ({ tokens: [97], isStalled: true }));
  for (const [engine, timeoutMs, reason] of [[finite, 5000, "stop"], [stalled, 50, "shutting_down"]] as const) {
    const server = serve({ models: [{ model: fakeModel(), engine }], port: 0, options: { writeLog: null } });
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...HELLO, stream: true }),
    });
    const text = response.text();
    await server.drain(timeoutMs);
    const last = eventsOf(await text).at(-1);
    assertEquals(last.error?.code ?? last.choices[0].finish_reason, reason);
    assertEquals([engine.numLive, engine.numListeners], [0, 0]);
    await assertRejects(() => fetch(`${server.url}/health`));
  }
});

Deno.test("while it drains, new requests are told so on old and new connections, and health says it", async () => {
  const engine = new FakeEngine(() => ({ tokens: [97], isStalled: true }));
  await withFakeServer(engine, {}, async (server) => {
    const running = await fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...HELLO, stream: true }),
    });
    using kept = await RawConnection.open(server.port);
    await kept.send("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assertMatch(await kept.read(/\}$/), /"status":"ok"/);
    const drained = server.drain(60_000);
    using fresh = await RawConnection.open(server.port);
    for (const connection of [kept, fresh]) {
      await connection.send(rawPost("/v1/chat/completions", JSON.stringify(HELLO)));
      const text = await connection.read();
      assertMatch(text, /^HTTP\/1\.1 503 /);
      assertMatch(text, /\r\nretry-after: 5\r\n/);
      assertMatch(text, /\r\nconnection: close\r\n/);
      assertMatch(text, /"code":"shutting_down"/);
    }
    const health = await fetch(`${server.url}/health`);
    assertEquals([health.status, (await health.json()).status], [503, "draining"]);
    assertEquals([(await fetch(`${server.url}/v1/models`)).status, engine.numLive], [503, 1]);
    await running.body!.cancel();
    await drained;
    await assertRejects(() => fetch(`${server.url}/health`));
  });
});

Deno.test("a second call of drain does not wait", async () => {
  const engine = new FakeEngine(() => ({ tokens: [97], isStalled: true }));
  const server = serve({ models: [{ model: fakeModel(), engine }], port: 0, options: { writeLog: null } });
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...HELLO, stream: true }),
  });
  const text = response.text();
  const start = performance.now();
  const drained = server.drain(60_000);
  await server.drain(60_000);
  await drained;
  assertMatch(await text, /shutting_down/);
  assertEquals(performance.now() - start < 5000, true);
});

Deno.test("a port that is taken is an error at once", async () => {
  await withServer(new FakeEngine(), {}, (server) => {
    assertThrows(
      () => serve({ models: [{ model: fakeModel(), engine: new FakeEngine() }], port: server.port, options: { writeLog: null } }),
      Deno.errors.AddrInUse,
    );
    return Promise.resolve();
  });
});
