import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import OpenAI from "openai";
import { type Answer, type Json, type RealServer, withRealServer } from "./real_server.ts";

const STORY = "Write a short story about a lighthouse.";
const NUM_TOKENS = 24;

/** Eight rows, eight configurations. The first two differ in nothing but the configuration. */
const ROWS: readonly (readonly [string, Record<string, unknown>])[] = [
  [STORY, { temperature: 0 }],
  [STORY, { temperature: 2, seed: 3 }],
  ["Name three rivers.", { temperature: 0.7, seed: 11, top_k: 20 }],
  ["What is the capital of France?", { temperature: 1, seed: 12, top_p: 0.8, logprobs: true, top_logprobs: 3 }],
  ["Tell me a joke.", { temperature: 0.9, seed: 13, min_p: 0.1, frequency_penalty: 1 }],
  ["Write a haiku about snow.", { temperature: 0.8, seed: 14, repetition_penalty: 1.3, top_n_sigma: 1 }],
  ["Count from one to five.", { temperature: 0, logit_bias: { "33": -100 }, logprobs: true }],
  ["Explain gravity to a child.", { temperature: 1.1, seed: 15, typical_p: 0.9, xtc_probability: 0.5 }],
];

function ask(server: RealServer, [content, fields]: (typeof ROWS)[number]): Promise<Answer> {
  return server.chat(content, { max_tokens: NUM_TOKENS, ignore_eos: true, ...fields });
}

/** Text, tokens, reason and the shape of the logprobs; their last bits may differ in company. */
function content({ text, finishReason, tokenIds, logprobs }: Answer): unknown {
  return { text, finishReason, tokenIds, numTop: logprobs.map((entry) => entry.top_logprobs.length) };
}

Deno.test("eight requests with eight configurations share steps, and each gets the text that it gets alone", async () => {
  await withRealServer({ maxBatch: 8 }, async (server) => {
    const alone: Answer[] = [];
    for (const row of ROWS) alone.push(await ask(server, row));
    const before = await stepRows(server);
    const together = await Promise.all(ROWS.map((row) => ask(server, row)));
    const after = await stepRows(server);
    for (const [i, answer] of together.entries()) assertEquals(content(answer), content(alone[i]!), JSON.stringify(ROWS[i]));
    const [greedy, hot] = together;
    assertNotEquals(greedy!.tokenIds.slice(0, 8), hot!.tokenIds.slice(0, 8));
    assertEquals(together[3]!.logprobs.map((entry) => entry.top_logprobs.length), Array(NUM_TOKENS).fill(3));
    assertEquals(together[0]!.logprobs, []);
    const meanRows = (after.sum - before.sum) / (after.count - before.count);
    assert(meanRows > 5, `${meanRows} rows shared a step on average, expected almost 8`);
    assert(after.count - before.count < 2 * NUM_TOKENS, `${after.count - before.count} steps for ${NUM_TOKENS} tokens of each row`);
  });
});

Deno.test("the official client gets the same text whole, streamed and in company", async () => {
  await withRealServer({}, async (server) => {
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
    const params = {
      model: "default",
      messages: [{ role: "user" as const, content: STORY }],
      temperature: 0.8,
      seed: 5,
      max_completion_tokens: 20,
    };
    const whole = await client.chat.completions.create(params);
    const text = whole.choices[0]!.message.content!;
    assert(text.length > 20, text);
    assertEquals(whole.usage!.completion_tokens, 20);
    const neighbours = ROWS.map((row) => ask(server, row));
    let streamed = "", numChunks = 0, usage: Json = null;
    for await (const chunk of await client.chat.completions.create({ ...params, stream: true, stream_options: { include_usage: true } })) {
      streamed += chunk.choices[0]?.delta.content ?? "";
      numChunks += chunk.choices[0]?.delta.content ? 1 : 0;
      usage = chunk.usage ?? usage;
    }
    await Promise.all(neighbours);
    assertEquals(streamed, text);
    assert(numChunks > 5, `The text came in ${numChunks} chunks`);
    assertEquals(usage, whole.usage);
    const { data } = await client.models.list();
    assertEquals((await client.models.retrieve(data[0]!.id)).id, data[0]!.id);
  });
});

Deno.test("a client that leaves in the middle frees its row at once, and its neighbour does not notice", async () => {
  await withRealServer({}, async (server) => {
    const solo = await ask(server, ROWS[2]!);
    const generatedBefore = await server.metric("rowlock_generated_tokens_total");
    const abort = new AbortController();
    const body = { messages: [{ role: "user", content: STORY }], temperature: 1, stream: true, ignore_eos: true, max_tokens: 900 };
    const response = await server.post("/v1/chat/completions", body, abort.signal);
    const reader = response.body!.getReader();
    for (let i = 0; i < 3; i++) await reader.read();
    assertEquals(await server.metric("rowlock_rows_active"), 1);
    const neighbour = ask(server, ROWS[2]!);
    abort.abort();
    await assertRejects(async () => {
      while (!(await reader.read()).done);
    });
    assertEquals(content(await neighbour), content(solo));
    await server.untilMetric("rowlock_rows_active", 0);
    const numGenerated = await server.metric("rowlock_generated_tokens_total") - generatedBefore;
    assert(numGenerated < 300, `${numGenerated} tokens were generated, most of them for nobody`);
    assertEquals(await server.metric("rowlock_sequences_live"), 0);
  });
});

Deno.test("wrong values are refused by name while running rows go on token for token", async () => {
  const wrong: readonly (readonly [Record<string, unknown> | string, number, string])[] = [
    [{ temperature: -1 }, 422, "temperature"],
    [{ temperature: "hot" }, 400, "temperature"],
    [{ top_p: 1.5 }, 422, "top_p"],
    [{ top_k: 1.5 }, 400, "top_k"],
    [{ min_p: -0.1 }, 422, "min_p"],
    [{ typical_p: 2 }, 422, "typical_p"],
    [{ seed: 1e30 }, 422, "seed"],
    [{ logit_bias: { "49152": 1 } }, 422, "logit_bias"],
    [{ allowed_token_ids: [49_152] }, 422, "allowed_token_ids"],
    [{ stop_token_ids: [-1] }, 422, "stop_token_ids"],
    [{ repetition_penalty: -2 }, 422, "repetition_penalty"],
    [{ logprobs: true, top_logprobs: 21 }, 422, "top_logprobs"],
    [{ n: 17 }, 422, "n"],
    ['{"messages":[{"role":"user","content":"x"}],"temperature":1e999}', 422, "temperature"],
    ['{"messages":[{"role":"user","content":"x"}],"top_p":NaN}', 400, ""],
  ];
  await withRealServer({}, async (server) => {
    const rows = ROWS.slice(0, 4);
    const alone: Answer[] = [];
    for (const row of rows) alone.push(await ask(server, row));
    const running = rows.map((row) => ask(server, row));
    for (const [fields, status, param] of wrong) {
      const body = typeof fields === "string" ? fields : { messages: [{ role: "user", content: "x" }], ...fields };
      const response = await server.post("/v1/chat/completions", body);
      const { error } = await response.json();
      assertEquals([JSON.stringify(fields), response.status, error.param ?? ""], [JSON.stringify(fields), status, param]);
    }
    for (const [i, answer] of (await Promise.all(running)).entries()) assertEquals(content(answer), content(alone[i]!));
  });
});

async function stepRows(server: RealServer): Promise<{ readonly sum: number; readonly count: number }> {
  return { sum: await server.metric("rowlock_step_rows_sum"), count: await server.metric("rowlock_step_rows_count") };
}
