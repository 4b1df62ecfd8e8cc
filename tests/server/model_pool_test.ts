import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { type Engine, EngineError } from "../../src/engine/engine.ts";
import { type App, createApp } from "../../src/server/app.ts";
import type { PoolLimits } from "../../src/server/model_pool.ts";
import type { ServerOptions } from "../../src/server/options.ts";
import type { PoolMember } from "../../src/server/pooled_model.ts";
import { FakeEngine, fakeModel, HELLO, type Json, say, tick } from "./fakes.ts";

/** Keeps track of the engines that were started and closed, by the model's id. */
class Starter {
  readonly log: string[] = [];
  readonly engines = new Map<string, FakeEngine>();
  /** Ends the loading of a model; without it loading takes no time. */
  gate: Promise<void> = Promise.resolve();

  member(
    id: string,
    weightBytes = 1000,
    script = new FakeEngine().script,
    facts: { leastBytes?: number } = {},
  ): PoolMember {
    return {
      model: fakeModel({ id }),
      expectedBytes: weightBytes,
      startEngine: async (): Promise<Engine> => {
        this.log.push(`+${id}`);
        await this.gate;
        const engine = new FakeEngine(script);
        Object.assign(engine, { facts: { ...engine.facts, weightBytes, ...facts } });
        // With a request that runs, it would be cut.
        engine.close = (): Promise<void> => (this.log.push(engine.numLive > 0 ? `-${id} cut` : `-${id}`), Promise.resolve());
        this.engines.set(id, engine);
        return engine;
      },
    };
  }
}

interface PoolApp extends AsyncDisposable {
  readonly app: App;
  chat(model: string, fields?: Json): Promise<Response>;
  get(path: string): Promise<Json>;
}

function poolApp(models: PoolMember[], limits: PoolLimits = {}, options: Partial<ServerOptions> = {}): PoolApp {
  const app = createApp({ models, limits, options: { writeLog: null, ...options } });
  const url = (path: string): string => `http://localhost${path}`;
  return {
    app,
    chat: (model, fields = {}) =>
      app.fetch(
        new Request(url("/v1/chat/completions"), {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ ...HELLO, model, ...fields }),
        }),
      ),
    get: async (path) => await (await app.fetch(new Request(url(path)))).json(),
    [Symbol.asyncDispose]: () => app.close(),
  };
}

async function contentOf(response: Response): Promise<string> {
  const body = await response.json();
  return body.choices?.[0].message.content ?? body.error.code;
}

Deno.test("every model is listed, none is loaded before it is asked for, and each answers under its own id", async () => {
  const starter = new Starter();
  const members = [starter.member("a"), starter.member("org/b", 1000, () => ({ tokens: say("I am b") }))];
  await using server = poolApp(members);
  const statuses = async (): Promise<unknown> => (await server.get("/v1/models")).data.map(({ id, status }: Json) => [id, status]);
  assertEquals(await statuses(), [["a", "unloaded"], ["org/b", "unloaded"]]);
  assertEquals(starter.log, []);
  const answer = await (await server.chat("org/b")).json();
  assertEquals([answer.model, answer.choices[0].message.content], ["org/b", "I am b"]);
  assertEquals(await statuses(), [["a", "unloaded"], ["org/b", "loaded"]]);
  assertEquals(await contentOf(await server.chat("default")), "Hello");
  assertEquals(starter.log, ["+org/b", "+a"]);
  const { models, status } = await server.get("/health");
  assertEquals([status, models], ["ok", ["a", "org/b"].map((id) => ({ id, status: "loaded", reason: "ok" }))]);
});

Deno.test("a model that is not served is 404 with the ids that are, and nothing is loaded for it", async () => {
  const starter = new Starter();
  await using server = poolApp([starter.member("a"), starter.member("b")]);
  for (const name of ["c", "org/name", "../a", "A"]) {
    const response = await server.chat(name);
    const { error } = await response.json();
    assertEquals([response.status, error.code, error.message.endsWith('this server has "a", "b"')], [404, "model_not_found", true]);
  }
  assertEquals(starter.log, []);
});

Deno.test("requests that come while a model is loading share the one load", async () => {
  const starter = new Starter();
  const gate = Promise.withResolvers<void>();
  starter.gate = gate.promise;
  await using server = poolApp([starter.member("a"), starter.member("b")]);
  const answers = Promise.all([1, 2, 3].map(() => server.chat("a")));
  await tick();
  assertEquals((await server.get("/health")).models[0].status, "loading");
  gate.resolve();
  assertEquals(await Promise.all((await answers).map(contentOf)), ["Hello", "Hello", "Hello"]);
  assertEquals(starter.log, ["+a"]);
});

Deno.test("when memory is short the least recently used model goes, and comes back when it is asked for", async () => {
  const starter = new Starter();
  await using server = poolApp(["a", "b", "c"].map((id) => starter.member(id)), { memoryBytes: 2500 });
  for (const id of ["a", "b", "a", "c", "b"]) {
    assertEquals(await contentOf(await server.chat(id)), "Hello");
    await tick(2);
  }
  assertEquals(starter.log, ["+a", "+b", "-b", "+c", "-a", "+b"]);
});

Deno.test("what models share gives way before any of them: KV unloads nothing, and a model that needs more than was expected makes room", async () => {
  const starter = new Starter();
  await using server = poolApp([starter.member("a"), starter.member("b"), { ...starter.member("c", 2500), expectedBytes: 10 }], {
    memoryBytes: 3000,
  });
  await contentOf(await server.chat("a"));
  starter.engines.get("a")!.step({ kvBytes: 1500 });
  await contentOf(await server.chat("b"));
  assertEquals(starter.log, ["+a", "+b"]);
  await contentOf(await server.chat("c"));
  assertEquals(starter.log.slice(2), ["+c", "-a", "-b"]);
});

Deno.test("loaded models share what none of them has to have, and hear of it before another one is loaded and after one has gone", async () => {
  const starter = new Starter();
  const needs = (id: string, weightBytes: number, leastBytes: number): PoolMember =>
    starter.member(id, weightBytes, undefined, { leastBytes });
  await using server = poolApp([needs("a", 1000, 1500), needs("b", 500, 600), needs("c", 3000, 3500)], {
    memoryBytes: 4500,
    idleUnloadMs: 60_000,
  });
  await contentOf(await server.chat("a"));
  const limits = (id: string): readonly number[] => starter.engines.get(id)!.memoryLimits;
  assertEquals(limits("a"), [4500]);
  await contentOf(await server.chat("b"));
  // 500 bytes were expected of b; then both share 4500 - 1500 - 600.
  assertEquals([limits("a"), limits("b")], [[4500, 4000, 2700], [1800]]);
  await contentOf(await server.chat("c"));
  assertEquals(starter.log, ["+a", "+b", "-a", "+c"]);
  assertEquals([limits("b").slice(1), limits("c")], [[1500, 800], [3700]]);
});

Deno.test("a model that can never fit is refused, takes no place, and is not loaded a second time", async () => {
  const starter = new Starter();
  await using server = poolApp([starter.member("a"), { ...starter.member("big", 9000), expectedBytes: 10 }], { memoryBytes: 3000 });
  for (const _ of [1, 2]) {
    const response = await server.chat("big");
    assertEquals([response.status, await contentOf(response)], [503, "out_of_memory"]);
  }
  assertEquals(starter.log, ["+big", "-big"]);
  assertEquals(await contentOf(await server.chat("a")), "Hello");
});

Deno.test("a request in flight is never cut: its model goes when it has ended, and those who come later wait their turn", async () => {
  const starter = new Starter();
  const text = "a long answer";
  await using server = poolApp([starter.member("a", 1000, () => ({ tokens: say(text) })), starter.member("b")], { memoryBytes: 1500 });
  const stream = await server.chat("a", { stream: true });
  const order: string[] = [];
  const other = server.chat("b").then(contentOf).then((content) => order.push(`b ${content}`));
  await tick(1);
  const late = server.chat("a").then(contentOf).then((content) => order.push(`a ${content}`));
  const events = await stream.text();
  assert(events.includes('"finish_reason":"stop"') && events.endsWith("data: [DONE]\n\n"), events);
  await Promise.all([other, late]);
  assertEquals(order, ["b Hello", `a ${text}`]);
  assertEquals(starter.log, ["+a", "-a", "+b", "-b", "+a"]);
});

Deno.test("a model that nobody uses is unloaded after its time, and one in use is not", async () => {
  const starter = new Starter();
  await using server = poolApp([starter.member("a"), starter.member("b", 1000, () => ({ tokens: say("x"), isStalled: true }))], {
    idleUnloadMs: 30,
  });
  await contentOf(await server.chat("a"));
  const stream = await server.chat("b", { stream: true });
  await tick(120);
  assertEquals(starter.log, ["+a", "+b", "-a"]);
  await stream.body!.cancel();
  await tick(120);
  assertEquals(starter.log, ["+a", "+b", "-a", "-b"]);
  assertEquals(await contentOf(await server.chat("a")), "Hello");
});

Deno.test("a model that cannot be loaded fails its own requests only, says why, and is tried again", async () => {
  const starter = new Starter();
  const broken = starter.member("broken");
  let numTries = 0;
  const startEngine = (): Promise<Engine> =>
    ++numTries < 2 ? Promise.reject(new EngineError("engine_error", "no such file")) : broken.startEngine!();
  await using server = poolApp([starter.member("a"), { ...broken, startEngine }]);
  const response = await server.chat("broken");
  assertEquals([response.status, await contentOf(response)], [500, "engine_error"]);
  const { status, models } = await server.get("/health");
  assertEquals([status, models[1]], ["ok", { id: "broken", status: "failed", reason: "no such file" }]);
  assertEquals(await contentOf(await server.chat("a")), "Hello");
  assertEquals(await contentOf(await server.chat("broken")), "Hello");
});

Deno.test("a server that stops ends the wait of those whose model is not loaded yet", async () => {
  const starter = new Starter();
  const gate = Promise.withResolvers<void>();
  starter.gate = gate.promise;
  const server = poolApp([starter.member("a"), starter.member("b")]);
  const waiting = server.chat("a");
  await tick();
  server.app.drain();
  assertEquals(await contentOf(await server.chat("b")), "shutting_down");
  server.app.abortAll(new EngineError("shutting_down", "The server is shutting down"));
  assertEquals(await contentOf(await waiting), "shutting_down");
  gate.resolve();
  await server.app.close();
  assertEquals(starter.log, ["+a", "-a"]);
});

Deno.test("who waits for a model waits no longer than the client or the request's time, and holds nothing afterwards", async () => {
  const starter = new Starter();
  const gate = Promise.withResolvers<void>();
  starter.gate = gate.promise;
  await using server = poolApp([starter.member("a"), starter.member("b")], { idleUnloadMs: 20 }, { requestTimeoutMs: 40 });
  const late = await server.chat("a");
  assertEquals([late.status, await contentOf(late)], [504, "request_timeout"]);
  const client = new AbortController();
  const request = new Request("http://localhost/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...HELLO, model: "b" }),
    signal: client.signal,
  });
  const left = server.app.fetch(request);
  await tick();
  client.abort();
  await (await left).body?.cancel();
  gate.resolve();
  await tick(80);
  assertEquals(starter.log, ["+a", "+b", "-a", "-b"]);
});

Deno.test("no more requests wait for a model than may", async () => {
  const starter = new Starter();
  const gate = Promise.withResolvers<void>();
  starter.gate = gate.promise;
  await using server = poolApp([starter.member("a")], { maxWaiting: 2 });
  const waiting = [server.chat("a"), server.chat("a")];
  await tick();
  const response = await server.chat("a");
  assertEquals([response.status, response.headers.get("retry-after"), await contentOf(response)], [429, "1", "queue_full"]);
  gate.resolve();
  assertEquals(await Promise.all((await Promise.all(waiting)).map(contentOf)), ["Hello", "Hello"]);
});

Deno.test("what unloaded models have counted stays counted", async () => {
  const starter = new Starter();
  await using server = poolApp([starter.member("a"), starter.member("b")], { memoryBytes: 1500 });
  await contentOf(await server.chat("a"));
  starter.engines.get("a")!.step({ steps: 5, generatedTokens: 50, rowsActive: 1 });
  await contentOf(await server.chat("b"));
  starter.engines.get("b")!.step({ steps: 2, generatedTokens: 7, rowsActive: 2, stepRows: 3 });
  const page = await (await server.app.fetch(new Request("http://localhost/metrics"))).text();
  const lines = [
    "rowlock_steps_total 7",
    "rowlock_generated_tokens_total 57",
    "rowlock_rows_active 2",
    "rowlock_step_rows_count 2",
    "rowlock_weight_bytes 1000",
  ];
  for (const line of lines) assert(page.split("\n").includes(line), line);
});

Deno.test("tokenizing needs no loaded model, and takes the one that is named", async () => {
  const starter = new Starter();
  const members = [starter.member("a"), { ...starter.member("b"), model: fakeModel({ id: "b", tokenizer: null }) }];
  await using server = poolApp(members);
  const tokenize = async (model: string): Promise<Json> => {
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ content: "é", model }) };
    return await (await server.app.fetch(new Request("http://localhost/tokenize", init))).json();
  };
  assertEquals([(await tokenize("a")).count, (await tokenize("b")).error.param, (await tokenize("c")).error.code], [
    2,
    "content",
    "model_not_found",
  ]);
  assertEquals(starter.log, []);
});

Deno.test("models have to be there and to have different ids", async () => {
  const starter = new Starter();
  assertThrows(() => createApp({ models: [] }), RangeError, "at least 1 model");
  assertThrows(() => createApp({ models: [starter.member("a"), starter.member("a")] }), RangeError, 'the id "a"');
  await assertRejects(() => Promise.resolve().then(() => createApp({ models: [{ model: fakeModel() }] })), TypeError, "Nothing can load");
});
