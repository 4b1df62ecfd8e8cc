import { assert, assertEquals, assertMatch } from "@std/assert";
import { BOS, ByteTokenizer, EOS, FakeEngine, HELLO, type Json, testApp } from "./fakes.ts";

Deno.test("the models are the loaded one, by its id with or without an escaped slash", async () => {
  const { get } = testApp();
  const list = await (await get("/v1/models")).json();
  assertEquals([list.object, list.data.length, list.data[0].id, list.data[0].max_model_len], ["list", 1, "test/tiny", 256]);
  for (const path of ["/v1/models/test/tiny", "/v1/models/test%2Ftiny", "/v1/models/default"]) {
    assertEquals(await (await get(path)).json(), list.data[0]);
  }
  for (const path of ["/v1/models/other", "/v1/models/..%2f..%2fetc", "/v1/models/%E0%A4%A"]) {
    const response = await get(path);
    assertEquals([response.status, (await response.json()).error.code], [404, "model_not_found"]);
  }
});

Deno.test("the root says where the API lies, and an empty model name means the first model", async () => {
  const { get, post } = testApp();
  const body = await (await get("/")).json();
  assertEquals([body.name, body.api, body.documentation], ["rowlock", "/v1", "/openapi.json"]);
  assertEquals((await (await post("/v1/chat/completions", { ...HELLO, model: "" })).json()).model, "test/tiny");
});

Deno.test("max_model_len is what is served: of a request, memory may hold less than the context", async () => {
  const engine = new FakeEngine();
  Object.assign(engine, { facts: { ...engine.facts, maxRowTokens: 100 } });
  const { get, post } = testApp(engine);
  assertEquals((await (await get("/v1/models/test/tiny")).json()).max_model_len, 100);
  assertEquals((await (await post("/tokenize", { content: "a" })).json()).max_model_len, 100);
});

Deno.test("HEAD answers like GET without a body", async () => {
  const { get } = testApp();
  for (const path of ["/v1/models", "/health", "/openapi.json", "/v1/models/absent", "/v1/chat/completions"]) {
    const [head, full] = [await get(path, { method: "HEAD" }), await get(path)];
    const { headers, status } = full;
    const { byteLength } = await full.arrayBuffer();
    assertEquals([head.status, head.headers.get("content-type"), await head.text()], [status, headers.get("content-type"), ""]);
    if (status !== 405) assertEquals(head.headers.get("content-length"), String(byteLength));
  }
});

Deno.test("unknown routes are 404 and wrong methods 405, as error objects with a request id", async () => {
  const { get } = testApp();
  const unknown = await get("/v1/nothing");
  assertEquals([unknown.status, (await unknown.json()).error.code], [404, "not_found"]);
  const wrong = await get("/v1/chat/completions");
  assertEquals([wrong.status, wrong.headers.get("allow"), (await wrong.json()).error.code], [405, "POST, OPTIONS", "method_not_allowed"]);
  const one = await get("/v1/models/test/tiny", { method: "DELETE" });
  assertMatch((await one.json()).error.message, /^\/v1\/models\/\{id\} takes GET; found DELETE$/);
  await get("/v1/models/test/tiny");
  assertMatch(await (await get("/metrics")).text(), /route="\/v1\/models\/\{id\}",status="200"/);
  const put = await get("/v1/models", { method: "PUT" });
  assertEquals([put.status, put.headers.get("allow")], [405, "GET, HEAD, OPTIONS"]);
  assertMatch(put.headers.get("x-request-id")!, /^req_id/);
});

Deno.test("a client's request id is kept when it can stand in a log", async () => {
  const { get } = testApp();
  const idOf = async (id: string): Promise<string | null> =>
    (await get("/health", { headers: { "x-request-id": id } })).headers.get("x-request-id");
  assertEquals(await idOf("abc-1.2_3"), "abc-1.2_3");
  assertMatch((await idOf("a b"))!, /^req_/);
  assertMatch((await idOf("x".repeat(65)))!, /^req_/);
});

Deno.test("tokenize and detokenize are inverse, and control tokens are data unless asked for", async () => {
  const { post } = testApp(new FakeEngine(), {}, { tokenizer: new ByteTokenizer(BOS) });
  const call = async (path: string, body: Json): Promise<Json> => await (await post(path, body)).json();
  assertEquals(await call("/tokenize", { content: "é", with_pieces: true }), {
    tokens: [195, 169],
    count: 2,
    max_model_len: 256,
    pieces: ["bytes:\\xc3", "bytes:\\xa9"],
  });
  assertEquals((await call("/tokenize", { content: "<s>" })).tokens, [60, 115, 62]);
  assertEquals((await call("/tokenize", { content: "<s>", parse_special: true })).tokens, [BOS]);
  assertEquals((await call("/tokenize", { content: "a", add_special: true })).tokens, [BOS, 97]);
  assertEquals(await call("/detokenize", { tokens: [195, 169, EOS] }), { content: "é" });
  assertEquals(await call("/detokenize", { tokens: [EOS], keep_special: true }), { content: "<|im_end|>" });
  assertEquals(await call("/detokenize", { tokens: [] }), { content: "" });
  // A character that lies across the border of two turns, and one that has no end.
  const long = [...Array(8191).fill(97), 195, 169, EOS, 195];
  assertEquals(await call("/detokenize", { tokens: long }), { content: `${"a".repeat(8191)}é\ufffd` });
  const wrong = await post("/detokenize", { tokens: [999] });
  assertEquals([wrong.status, (await wrong.json()).error.param], [422, "tokens"]);
});

Deno.test("apply-template shows the prompt", async () => {
  const response = await testApp().post("/apply-template", HELLO);
  assertEquals(await response.json(), { prompt: "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n" });
});

Deno.test("metrics tell rows, steps, tokens and requests", async () => {
  const engine = new FakeEngine();
  const { post, get, app } = testApp(engine);
  engine.step({ steps: 1, stepRows: 8, stepMs: 60, rowsActive: 8, rowsWaiting: 2, promptTokens: 40, generatedTokens: 9, kvBytes: 77 });
  engine.step({ steps: 2, stepRows: 4, stepMs: 30 });
  await (await post("/v1/chat/completions", HELLO)).body?.cancel();
  await (await get("/secret\npath")).body?.cancel();
  const response = await get("/metrics");
  assertEquals(response.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  const lines = (await response.text()).split("\n");
  for (
    const line of [
      "rowlock_rows_active 8",
      "rowlock_rows_waiting 2",
      "rowlock_steps_total 2",
      "rowlock_step_rows_sum 12",
      "rowlock_step_rows_count 2",
      'rowlock_step_rows_bucket{le="4"} 1',
      'rowlock_step_rows_bucket{le="8"} 2',
      'rowlock_step_seconds_bucket{le="0.05"} 1',
      "rowlock_prompt_tokens_total 40",
      "rowlock_generated_tokens_total 9",
      "rowlock_kv_bytes 77",
      'rowlock_requests_total{route="/v1/chat/completions",status="200",outcome="ok"} 1',
      'rowlock_requests_total{route="unmatched",status="404",outcome="not_found"} 1',
      "rowlock_time_to_first_token_seconds_count 1",
      "rowlock_request_seconds_count 1",
      "# TYPE rowlock_step_seconds histogram",
    ]
  ) assert(lines.includes(line), line);
  assertEquals(lines.every((line) => /^(# (HELP|TYPE) rowlock_\w+ .+|rowlock_\w+(\{[^}]*\})? [-+\w.]+|)$/.test(line)), true);
  app.close();
  assertEquals(engine.numListeners, 0);
});

Deno.test("the OpenAPI document describes what the schemas accept", async () => {
  const document = await (await testApp().get("/openapi.json")).json();
  assertEquals(document.openapi, "3.1.0");
  const chat = document.components.schemas.ChatCompletionRequest;
  assertEquals(chat.required, ["messages"]);
  const [temperature] = chat.properties.temperature.anyOf;
  assertEquals([temperature.type, temperature.minimum, temperature.maximum], ["number", 0, 100]);
  assertEquals(chat.properties.top_k.anyOf[0], { ...chat.properties.top_k.anyOf[0], type: "integer", minimum: -1 });
  assertEquals(document.components.schemas.CompletionRequest.required, ["prompt"]);
  const [dryBase] = chat.properties.dry_base.anyOf;
  assertEquals(dryBase.anyOf, [{ type: "number", minimum: 1, maximum: 100 }, { type: "number", enum: [0] }]);
  assertEquals(document.components.schemas.CompletionRequest.properties.prompt.anyOf.length, 4);
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map((match) => match[1]!);
  assertEquals(references.length > 15, true);
  assertEquals(references.filter((name) => !(name in document.components.schemas)), []);
});

Deno.test("every path of the OpenAPI document is a route, and every route is in it", async () => {
  const { get, post } = testApp();
  const document = await (await get("/openapi.json")).json();
  const paths = Object.entries<Json>(document.paths);
  assertEquals(paths.length, 11);
  for (const [path, operations] of paths) {
    const response = operations.get ? await get(path.replace("{id}", "test/tiny")) : await post(path, {});
    assertEquals([path, response.status], [path, operations.get ? 200 : 400]);
    await response.body?.cancel();
  }
});

Deno.test("answers match the schemas of the OpenAPI document", async () => {
  const { z } = await import("zod");
  const { get, post } = testApp();
  const { schemas } = (await (await get("/openapi.json")).json()).components;
  const check = (name: string, value: Json): void => {
    const result = z.fromJSONSchema(schemas[name]).safeParse(value);
    assert(result.success, `${name}: ${result.error}`);
  };
  const body = { ...HELLO, logprobs: true, top_logprobs: 1, return_token_ids: true };
  check("ChatCompletion", await (await post("/v1/chat/completions", body)).json());
  check("Completion", await (await post("/v1/completions", { prompt: "a", echo: true, logprobs: 1 })).json());
  check("ModelList", await (await get("/v1/models")).json());
  check("Health", await (await get("/health")).json());
  check("ServerInfo", await (await get("/")).json());
  check("ErrorResponse", await (await post("/v1/completions", {})).json());
  const stream = await (await post("/v1/chat/completions", { ...body, stream: true, stream_options: { include_usage: true } })).text();
  const { eventsOf } = await import("./fakes.ts");
  for (const event of eventsOf(stream)) check("ChatCompletionChunk", event);
});
