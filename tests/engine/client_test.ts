import { assert, assertEquals, assertRejects } from "@std/assert";
import { EngineClient, type EngineClientOptions } from "../../src/engine/client.ts";
import { EngineError } from "../../src/engine/engine.ts";
import type { EngineOptions, EngineStats } from "../../src/engine/messages.ts";
import { BREAKING_TOKEN } from "./fake_draw.ts";
import { LIMITS, request, solo, tokensOf } from "./requests.ts";

const OPTIONS: EngineOptions = { ...LIMITS, libraryPath: "", model: { config: {}, tensors: [] } };

async function withClient(body: (client: EngineClient) => Promise<void>, settings: EngineClientOptions = {}, stepMs = 0): Promise<void> {
  const workerUrl = new URL(`./fake_worker.ts?stepMs=${stepMs}`, import.meta.url);
  const client = await EngineClient.start(OPTIONS, { workerUrl, ...settings });
  try {
    await body(client);
  } finally {
    await client.close();
  }
}

async function tokensFrom(client: EngineClient, ...made: Parameters<typeof request>): Promise<number[]> {
  return (await Array.fromAsync(client.generate(request(...made)))).flatMap(({ tokens }) => tokens);
}

/** Resolves at the first step for which `isReached`. */
function reached(client: EngineClient, isReached: (stats: EngineStats) => boolean): Promise<EngineStats> {
  return new Promise((resolve) => {
    const stop = client.onStep((stats) => {
      if (!isReached(stats)) return;
      stop();
      resolve(stats);
    });
  });
}

Deno.test("concurrent requests through the worker get their solo texts and share steps", () =>
  withClient(async (client) => {
    let mostRows = 0;
    client.onStep(({ stepRows }) => mostRows = Math.max(mostRows, stepRows));
    const made = [1, 2, 3, 4].map((i) =>
      [`r${i}`, { promptIds: [i, 9], maxTokens: 20, sampling: { temperature: 1, seed: BigInt(i) } }] as const
    );
    const texts = await Promise.all(made.map(([id, body]) => tokensFrom(client, id, body)));
    for (const [i, [id, body]] of made.entries()) assertEquals(texts[i], tokensOf(solo(request(id, body))));
    assertEquals(mostRows, 4);
    assertEquals(client.health, { ok: true, reason: "ok" });
    assertEquals(client.facts.device, "fake");
  }));

Deno.test("a limit of the memory is kept when the call comes back, by an engine that is started again too, and changes no text", () =>
  withClient(async (client) => {
    const made = [1, 2, 3].map((i) => [`r${i}`, { promptIds: [i, 9], maxTokens: 150 }] as const);
    const texts = Promise.all(made.map(([id, body]) => tokensFrom(client, id, body)));
    await reached(client, ({ rowsActive, kvBytes }) => rowsActive === 3 && kvBytes >= 3 * 128 * 8);
    // The fake model's weights, and a cache of 192 tokens of 8 bytes.
    const limitBytes = 1000 + 192 * 8;
    await client.limitMemory(limitBytes);
    const stats = await reached(client, () => true);
    assert(stats.memoryLimitBytes === limitBytes && stats.kvBytes <= 192 * 8 && stats.preemptions > 0, JSON.stringify(stats));
    for (const [i, text] of (await texts).entries()) assertEquals(text, tokensOf(solo(request(...made[i]!))));
    await assertRejects(() => tokensFrom(client, "killer", { promptIds: [BREAKING_TOKEN, 5] }), EngineError, "Killed by a test");
    while (!client.health.ok) await new Promise((resolve) => setTimeout(resolve, 5));
    const again = tokensFrom(client, "again");
    assertEquals((await reached(client, () => true)).memoryLimitBytes, limitBytes);
    await again;
  }));

Deno.test("leaving the loop early frees the row while the engine goes on", () =>
  withClient(
    async (client) => {
      let numUpdates = 0;
      for await (const _ of client.generate(request("long", { maxTokens: 390 }))) {
        if (++numUpdates === 3) break;
      }
      const stats = await reached(client, ({ rowsActive }) => rowsActive === 0);
      assert(stats.generatedTokens < 100, `${stats.generatedTokens} tokens were generated for nobody`);
    },
    {},
    5,
  ));

Deno.test("a request that comes while steps run joins at the next step", () =>
  withClient(
    async (client) => {
      const long = tokensFrom(client, "long", { maxTokens: 16 });
      await reached(client, ({ steps }) => steps >= 3);
      const before = client.stats.steps;
      await tokensFrom(client, "short", { maxTokens: 1 });
      // One step may have been running when the request was sent, and one more may have been finished before the answer was read.
      assert(client.stats.steps - before <= 3, `The request waited ${client.stats.steps - before} steps`);
      assertEquals((await long).length, 16);
    },
    {},
    40,
  ));

Deno.test("a cancel that comes while steps run takes effect at the next step", () =>
  withClient(
    async (client) => {
      const rest = tokensFrom(client, "rest", { maxTokens: 16 });
      const updates = client.generate(request("leaves", { maxTokens: 300 }));
      await updates.next();
      const before = client.stats.steps;
      await updates.return?.();
      const after = await reached(client, ({ rowsActive }) => rowsActive === 1);
      assert(after.steps - before <= 3, `The row stayed for ${after.steps - before} steps`);
      assertEquals((await rest).length, 16);
    },
    {},
    40,
  ));

Deno.test("a request that the engine refuses is an error with a code, and the others go on", () =>
  withClient(async (client) => {
    const error = await assertRejects(() => tokensFrom(client, "bad", { promptIds: [-1] }), EngineError, "promptIds holds -1");
    assertEquals(error.code, "engine_error");
    assertEquals((await tokensFrom(client, "good")).length, 8);
  }));

Deno.test("a second request with a running id is refused and does not disturb the first", () =>
  withClient(async (client) => {
    const first = tokensFrom(client, "a", { maxTokens: 30 });
    await assertRejects(() => tokensFrom(client, "a"), EngineError, 'id "a" is running already');
    assertEquals((await first).length, 30);
  }));

Deno.test("when the worker dies its requests end with an error, health tells, and a new worker serves the next ones", () =>
  withClient(
    async (client) => {
      const running = assertRejects(() => tokensFrom(client, "running", { maxTokens: 300 }), EngineError, "Killed by a test");
      const killer = assertRejects(() => tokensFrom(client, "killer", { promptIds: [BREAKING_TOKEN, 5] }), EngineError, "Killed by a test");
      await Promise.all([running, killer]);
      assertEquals(client.health.ok, false);
      assert(client.health.reason.includes("being started again"), client.health.reason);
      await assertRejects(() => tokensFrom(client, "too early"), EngineError, "being started again");
      for (let waits = 0; waits < 200 && !client.health.ok; waits++) await new Promise((resolve) => setTimeout(resolve, 10));
      assertEquals(await tokensFrom(client, "next"), tokensOf(solo(request("next"))));
    },
    {},
    2,
  ));

Deno.test("an engine that dies again and again is given up, and says so", () =>
  withClient(async (client) => {
    await assertRejects(() => tokensFrom(client, "killer", { promptIds: [BREAKING_TOKEN, 5] }), EngineError, "Killed by a test");
    assertEquals(client.health, { ok: false, reason: "The engine stopped: Uncaught Error: Killed by a test" });
    await assertRejects(() => tokensFrom(client, "late"), EngineError, "The engine stopped");
  }, { maxRestarts: 0 }));

Deno.test("a model that cannot be loaded rejects the start with the reason", async () => {
  const workerUrl = new URL("./fake_worker.ts", import.meta.url);
  await assertRejects(
    () => EngineClient.start({ ...OPTIONS, libraryPath: "missing" }, { workerUrl }),
    EngineError,
    'No library at "missing"',
  );
});

Deno.test("close ends running and later requests with shutting_down and ends the worker", async () => {
  let error: EngineError | null = null;
  let closedClient: EngineClient | null = null;
  await withClient(
    async (client) => {
      closedClient = client;
      const updates = client.generate(request("long", { maxTokens: 390 }));
      await updates.next();
      const rest = Array.fromAsync(updates);
      const closing = client.close();
      error = await assertRejects(() => rest, EngineError);
      await closing;
    },
    {},
    5,
  );
  assertEquals((error as EngineError | null)?.code, "shutting_down");
  const late = await assertRejects(() => tokensFrom(closedClient as unknown as EngineClient, "late"), EngineError);
  assertEquals(late.code, "shutting_down");
});

Deno.test("an engine that takes too long for a step counts as hung until it goes on", () =>
  withClient(
    async (client) => {
      const text = tokensFrom(client, "a", { maxTokens: 2 });
      await new Promise((resolve) => setTimeout(resolve, 100));
      assertEquals(client.health.ok, false);
      assert(client.health.reason.includes("has not finished a step"), client.health.reason);
      await text;
      assertEquals(client.health.ok, true);
    },
    { stallTimeoutMs: 40 },
    200,
  ));
