/** Every status of the OpenAPI document is provoked on every route that has it, and every status that a route gives is in the document. */
import { assert, assertEquals } from "@std/assert";
import { z } from "zod";
import type { LoadedModel } from "../../src/models/loaded_model.ts";
import type { ServerOptions } from "../../src/server/options.ts";
import type { ChatTemplate } from "../../src/tokenizer/chat_template.ts";
import { ByteTokenizer, FakeEngine, HELLO, type Json, type TestApp, testApp } from "./fakes.ts";

/** A body that each route serves. */
const BODIES: Readonly<Record<string, Json>> = {
  "/v1/chat/completions": HELLO,
  "/v1/completions": { prompt: "x" },
  "/tokenize": { content: "x" },
  "/detokenize": { tokens: [97] },
  "/apply-template": HELLO,
};
/** A number, or an id, that is out of range. */
const OUT_OF_RANGE: Readonly<Record<string, Json>> = {
  "/v1/chat/completions": { ...HELLO, temperature: -1 },
  "/v1/completions": { prompt: [999] },
  "/detokenize": { tokens: [999] },
};

interface Setting {
  readonly status: number;
  readonly engine?: () => FakeEngine;
  readonly options?: Partial<ServerOptions>;
  readonly model?: Partial<LoadedModel>;
  readonly send: (app: TestApp, method: string, path: string) => Promise<Response> | null;
}

class BrokenTokenizer extends ByteTokenizer {
  override encode(): never {
    throw new TypeError("broken");
  }
  override tokenBytes(): never {
    throw new TypeError("broken");
  }
}

const BROKEN_TEMPLATE: ChatTemplate = {
  source: "",
  render(): never {
    throw new TypeError("broken");
  },
};

const normal = (app: TestApp, method: string, path: string, headers: Record<string, string> = {}): Promise<Response> =>
  method === "post" ? app.post(path, BODIES[path], headers) : app.get(path.replace("{id}", "test/tiny"), { headers });
const post = (body: (path: string) => Json, headers: Record<string, string> = {}): Setting["send"] => (app, method, path) =>
  method === "post" && body(path) !== undefined ? app.post(path, body(path), headers) : null;
const isGenerating = (path: string): boolean => path.startsWith("/v1/c");
const generating: Setting["send"] = (app, method, path) => isGenerating(path) ? normal(app, method, path) : null;

function endlessPost(app: TestApp, method: string, path: string): Promise<Response> | null {
  if (method !== "post") return null;
  const body = new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(new TextEncoder().encode("{")) });
  return app.app.fetch(new Request(`http://localhost${path}`, { method: "POST", headers: { "content-type": "application/json" }, body }));
}

async function overfull(app: TestApp, path: string): Promise<Response> {
  const first = normal(app, "post", path);
  while (app.engine.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  const second = await normal(app, "post", path);
  app.app.abortAll(new Error("over"));
  await (await first).body?.cancel();
  return second;
}

const stalled = (): FakeEngine => new FakeEngine(() => ({ tokens: [], isStalled: true }));

const SETTINGS: readonly Setting[] = [
  { status: 200, send: normal },
  { status: 400, send: post(() => ({ messages: 1, prompt: {}, content: 1, tokens: "x" })) },
  { status: 401, options: { apiKeys: ["k"] }, send: (app, method, path) => normal(app, method, path) },
  {
    status: 403,
    send: (app, method, path) =>
      app.app.fetch(
        new Request(`http://evil.example${path}`, {
          method: method.toUpperCase(),
          ...(method === "post" ? { body: "{}", headers: { "content-type": "application/json" } } : {}),
        }),
      ),
  },
  { status: 404, send: post((path) => ({ ...BODIES[path], model: "absent" })) },
  { status: 404, send: (app, _method, path) => path.includes("{id}") ? app.get(path.replace("{id}", "absent")) : null },
  { status: 408, options: { bodyTimeoutMs: 10 }, send: endlessPost },
  { status: 413, options: { maxBodyBytes: 5 }, send: post((path) => BODIES[path]) },
  { status: 415, send: post((path) => BODIES[path], { "content-type": "text/plain" }) },
  { status: 422, send: post((path) => OUT_OF_RANGE[path]) },
  {
    status: 429,
    engine: stalled,
    options: { maxBatch: 1, maxQueue: 0 },
    send: (app, _method, path) => isGenerating(path) ? overfull(app, path) : null,
  },
  { status: 500, model: { tokenizer: new BrokenTokenizer(), chatTemplate: BROKEN_TEMPLATE }, send: post((path) => BODIES[path]) },
  { status: 503, engine: () => Object.assign(new FakeEngine(), { health: { ok: false, reason: "down" } }), send: generating },
  {
    status: 503,
    engine: () => Object.assign(new FakeEngine(), { health: { ok: false, reason: "down" } }),
    send: (app, _method, path) => path === "/health" ? app.get(path) : null,
  },
  { status: 504, engine: stalled, options: { requestTimeoutMs: 5 }, send: generating },
];

/** Schema names of the answers that `operation` gives with `status`. */
function schemaOf(document: Json, operation: Json, status: number): Json | null {
  const schema = operation.responses[status]?.content["application/json"]?.schema;
  if (schema === undefined || schema.$ref === undefined) return null;
  return document.components.schemas[schema.$ref.split("/").at(-1)];
}

Deno.test("each route gives exactly the statuses of its description, with answers of the described form", async () => {
  const document = await (await testApp().get("/openapi.json")).json();
  for (const [path, operations] of Object.entries<Json>(document.paths)) {
    for (const [method, operation] of Object.entries<Json>(operations)) {
      const seen = new Set<number>();
      for (const { status, engine, options, model, send } of SETTINGS) {
        const app = testApp(engine?.() ?? new FakeEngine(), options, model);
        const response = await send(app, method, path);
        if (response === null) continue;
        const text = await response.text();
        if (status !== 401 || path !== "/health") assertEquals(response.status, status, `${method} ${path}: ${text.slice(0, 200)}`);
        seen.add(response.status);
        const schema = schemaOf(document, operation, response.status);
        if (schema === null) continue;
        const result = z.fromJSONSchema(schema).safeParse(JSON.parse(text));
        assert(result.success, `${method} ${path} ${response.status}: ${result.error}`);
      }
      const described = Object.keys(operation.responses).map(Number);
      // Where nothing is generated, only a model that cannot be loaded is 503: the scripted engine always is.
      if (path in BODIES && !isGenerating(path)) seen.add(503);
      assertEquals([path, [...seen].sort()], [path, described.sort()]);
    }
  }
});
