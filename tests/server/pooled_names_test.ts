/** What clients call a model of the pool, and what it says about itself. */
import { assertEquals } from "@std/assert";
import type { Engine } from "../../src/engine/engine.ts";
import { type App, createApp } from "../../src/server/app.ts";
import type { PoolMember } from "../../src/server/pooled_model.ts";
import { FakeEngine, fakeModel, HELLO, type Json } from "./fakes.ts";

/** A model that is loaded when a request names it. */
function member(id: string, change: Partial<PoolMember> & { readonly maxRowTokens?: number } = {}): PoolMember {
  const { maxRowTokens, ...others } = change;
  const startEngine = (): Promise<Engine> => {
    const engine = new FakeEngine();
    Object.assign(engine, { facts: { ...engine.facts, weightBytes: 600, ...(maxRowTokens === undefined ? {} : { maxRowTokens }) } });
    return Promise.resolve(engine);
  };
  return { model: fakeModel({ id }), expectedBytes: 600, startEngine, ...others };
}

async function withApp(models: PoolMember[], body: (call: (path: string, fields?: Json) => Promise<Json>) => Promise<void>): Promise<void> {
  const app: App = createApp({ models, limits: { memoryBytes: 1000 }, options: { writeLog: null } });
  const call = async (path: string, fields?: Json): Promise<Json> => {
    const headers = { "content-type": "application/json" };
    const init = fields === undefined ? {} : { method: "POST", headers, body: JSON.stringify({ ...HELLO, ...fields }) };
    return await (await app.fetch(new Request(`http://localhost${path}`, init))).json();
  };
  await body(call).finally(() => app.close());
}

const CHAT = "/v1/chat/completions";

Deno.test("a model is reached by its other names too, an id counts before them, and it answers under its id", async () => {
  await withApp([member("a", { aliases: ["short", "b"] }), member("b")], async (call) => {
    assertEquals((await call(CHAT, { model: "short" })).model, "a");
    assertEquals((await call(CHAT, { model: "b" })).model, "b");
    assertEquals((await call("/v1/models/short")).id, "a");
    assertEquals((await call("/v1/models")).data.map(({ id }: Json) => id), ["a", "b"]);
    assertEquals((await call(CHAT, { model: "other" })).error.code, "model_not_found");
  });
});

Deno.test("what memory allows of one request is told once a model has been loaded, and stays known when it has gone", async () => {
  await withApp([member("a", { maxRowTokens: 100 }), member("b")], async (call) => {
    const before = (await call("/v1/models/a")).max_model_len;
    await call(CHAT, { model: "a" });
    assertEquals([before > 100, (await call("/v1/models/a")).max_model_len], [true, 100]);
    await call(CHAT, { model: "b" });
    const { status, max_model_len } = await call("/v1/models/a");
    assertEquals([status, max_model_len], ["unloaded", 100]);
  });
});
