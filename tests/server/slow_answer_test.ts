/** Answers that are not streamed and take longer than a moment: they get their status first, and a body that can be cancelled. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import OpenAI from "openai";
import { EngineError } from "../../src/engine/engine.ts";
import { FakeEngine, HELLO, say, testApp, tick } from "./fakes.ts";
import { RawConnection, rawPost, withFakeServer } from "./fake_server.ts";

const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const CUT = /"error":\{"message":"[^"]*"[^{]*\}\}\r\n$/;
/** Longer than an answer's headers are held back. */
const LATE_MS = 400;

/** Says `text` after a while. */
function lateEngine(text: string): FakeEngine {
  return new FakeEngine(() => ({ tokens: say(text), delayMs: LATE_MS }));
}

Deno.test("the row of a whole answer is freed when its client leaves, however the request arrived", async () => {
  const bodies = { [CHAT]: HELLO, [COMPLETIONS]: { prompt: "Hi", n: 2 } };
  for (const [path, fields] of Object.entries(bodies)) {
    const engine = new FakeEngine(() => ({ tokens: [97], isStalled: true }));
    await withFakeServer(engine, {}, async ({ port, app }) => {
      const [head, rest] = rawPost(path, JSON.stringify({ ...fields, user: "x".repeat(3000) })).split("\r\n\r\n") as [string, string];
      const connection = await RawConnection.open(port);
      await connection.send(`${head}\r\n\r\n${rest.slice(0, 1000)}`);
      await tick(20);
      await connection.send(rest.slice(1000));
      await tick(LATE_MS);
      assert(engine.numLive > 0);
      connection.close();
      for (let waited = 0; engine.numLive > 0 && waited < 2000; waited += 5) await tick(5);
      assertEquals([engine.numLive, app.numLive, engine.cancelled.length], [0, 0, engine.requests.length]);
    });
  }
});

Deno.test("a late answer is the same JSON as one that comes at once, with white space before it", async () => {
  for (const [path, fields] of [[CHAT, HELLO], [COMPLETIONS, { prompt: "Hi" }]] as const) {
    const body = { ...fields, n: 2, logprobs: path === CHAT ? true : 1, return_token_ids: true };
    const atOnce = await testApp(new FakeEngine(() => ({ tokens: say("Grüße 🎉") }))).post(path, body);
    const late = await testApp(lateEngine("Grüße 🎉"), { keepAliveMs: 60 }).post(path, body);
    assertEquals([late.status, late.headers.get("content-type")], [200, atOnce.headers.get("content-type")]);
    const text = await late.text();
    assertMatch(text, /^ {2,}\{/);
    const { created: _, ...answer } = JSON.parse(text);
    const { created: __, ...expected } = await atOnce.json();
    assertEquals(answer, expected);
  }
});

Deno.test("the log and the metrics have the whole time of a late answer, and its client's leaving", async () => {
  const { post, log, get, app } = testApp(lateEngine("late"), { nowMs: () => performance.timeOrigin + performance.now() });
  await (await post(CHAT, HELLO)).text();
  assertMatch(log[0]!, /200 {2}\d{3,} ms {2}prompt \d+ {2}generated 5/);
  await (await post(CHAT, HELLO)).body!.cancel();
  assertMatch(log[1]!, /499 .* disconnected/);
  assertEquals([log.length, app.numLive], [2, 0]);
  assertMatch(await (await get("/metrics")).text(), /rowlock_disconnects_total 1\n/);
});

Deno.test("a failure after the status is an error object, and then the connection is cut: no client takes it for an answer", async () => {
  const engine = new FakeEngine(() => ({ tokens: [97], error: "row_broken", delayMs: LATE_MS }));
  await withFakeServer(engine, {}, async ({ port, url }) => {
    using connection = await RawConnection.open(port);
    await connection.send(rawPost(CHAT, JSON.stringify(HELLO)));
    const text = await connection.read();
    assertMatch(text, /^HTTP\/1\.1 200 OK\r\n/);
    assertMatch(text, CUT);
    assertMatch(text, /"code":"row_broken"/);
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "key", maxRetries: 0 });
    const create = () => client.chat.completions.create({ model: "default", messages: [{ role: "user", content: "Hi" }] });
    await assertRejects(create, Error);
  });
});

Deno.test("late failures of every kind reach the log with their code, and leave nothing behind", async () => {
  const { post, get, app, log, engine } = testApp(new FakeEngine(() => ({ tokens: [97], isStalled: true })), { requestTimeoutMs: LATE_MS });
  const timedOut = (await post(CHAT, HELLO)).body!.getReader();
  await assertRejects(async () => {
    while (!(await timedOut.read()).done);
  });
  const stopped = (await post(CHAT, HELLO)).body!.getReader();
  app.abortAll(new EngineError("shutting_down", "The server is shutting down"));
  assertMatch(new TextDecoder().decode((await stopped.read()).value), /"code":"shutting_down"/);
  await assertRejects(() => stopped.read());
  assertEquals(log.map((line) => /request_timeout|shutting_down/.exec(line)?.[0]), ["request_timeout", "shutting_down"]);
  const metrics = await (await get("/metrics")).text();
  for (const outcome of ["request_timeout", "shutting_down"]) {
    assert(metrics.includes(`rowlock_requests_total{route="${CHAT}",status="200",outcome="${outcome}"} 1`), metrics);
  }
  assertEquals([engine.numLive, app.numLive], [0, 0]);
});
