/** Random requests, made from the server's own OpenAPI document. ROWLOCK_FUZZ_SECONDS and ROWLOCK_FUZZ_SEED make other runs of it. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { z } from "zod";
import { eventsOf, FakeEngine, HELLO, type Json, say, type TestApp, testApp } from "./fakes.ts";
import { valuesOf } from "./schema_arbitrary.ts";

const SECONDS = Number(Deno.env.get("ROWLOCK_FUZZ_SECONDS") ?? 10);
const SEED = Number(Deno.env.get("ROWLOCK_FUZZ_SEED") ?? 5);
/** Right requests show what is served, those with one wrong place in ten or in fifty what is refused and how. */
const WILDNESSES = [0, 2, 10];

const document = await (await testApp().get("/openapi.json")).json();
const schemas = new Map(Object.entries<Json>(document.components.schemas).map(([name, schema]) => [name, z.fromJSONSchema(schema)]));
const posts = Object.entries<Json>(document.paths).flatMap(([path, { post }]) => post === undefined ? [] : [{ path, operation: post }]);

function check(name: string, value: unknown): void {
  const result = schemas.get(name)!.safeParse(value);
  assert(result.success, `${name}: ${result.error} in ${JSON.stringify(value).slice(0, 500)}`);
}

const nameOf = (schema: Json): string => schema.$ref.split("/").at(-1);

async function checkResponse(response: Response, operation: Json): Promise<void> {
  const text = await response.text();
  const described = operation.responses[response.status];
  assert(described !== undefined && response.status < 500, `status ${response.status}: ${text}`);
  const type = response.headers.get("content-type")!.split(";")[0]!;
  if (type !== "text/event-stream") return check(nameOf(described.content[type].schema), JSON.parse(text));
  assertEquals(text.split("data: [DONE]\n\n").length, 2);
  const [end, json] = described.content[type].schema.properties.data.anyOf;
  assertEquals(end, { const: "[DONE]" });
  for (const event of eventsOf(text)) check(nameOf(json.contentSchema.anyOf["error" in event ? 1 : 0]), event);
}

async function ask(app: TestApp, path: string, operation: Json, body: unknown): Promise<number> {
  const response = await app.post(path, JSON.stringify(body) ?? "null");
  const { status } = response;
  await checkResponse(response, operation);
  assertEquals([app.app.numLive, app.engine.numLive], [0, 0]);
  return status;
}

for (const [index, { path, operation }] of posts.entries()) {
  Deno.test(`random bodies for ${path} get answers of the described form, and never a 500`, async () => {
    const schema = operation.requestBody.content["application/json"].schema;
    const bodies = fc.oneof(...WILDNESSES.map((wildness) => valuesOf(schema, document, wildness)));
    // An endless answer would only be slow: the engine's own is short.
    const app = testApp(new FakeEngine(() => ({ tokens: say("Hi 🎉"), tokensPerStep: 3 })), { maxQueue: 1000 });
    const statuses = new Map<number, number>();
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const status = await ask(app, path, operation, body);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }),
      { numRuns: 1e6, interruptAfterTimeLimit: SECONDS * 1000 / posts.length, seed: SEED + index, endOnFailure: true },
    );
    assert((statuses.get(200) ?? 0) >= 10 && (statuses.get(400) ?? 0) >= 10, `found ${JSON.stringify([...statuses])}`);
    const control = await (await app.post("/v1/chat/completions", HELLO)).json();
    assertEquals(control.choices[0].message.content, "Hi 🎉");
  });
}
