import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { HOSTILE_INPUTS, type HostileInput } from "./hostile_inputs.ts";
import { type Json, type RealServer, withRealServer } from "./real_server.ts";

/** A short greedy request: what it gets must not change. */
async function control(server: RealServer): Promise<Json> {
  const response = await server.post("/v1/completions", { prompt: "The sky is", temperature: 0, max_tokens: 3, return_token_ids: true });
  return (await response.json()).choices;
}

async function send(server: RealServer, input: HostileInput): Promise<{ readonly status: number; readonly answer: Json }> {
  const { body } = input;
  const response = await fetch(`${server.url}${input.path ?? "/v1/chat/completions"}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...input.headers },
    body: typeof body === "string" || body instanceof Uint8Array ? body as BodyInit : JSON.stringify(body),
  });
  return { status: response.status, answer: await response.json() };
}

function checkAnswer(input: HostileInput, status: number, answer: Json): void {
  const shown = `${input.name}: ${status} ${JSON.stringify(answer).slice(0, 300)}`;
  assertEquals(status, input.status, shown);
  if (status === 200) return assert(answer.choices.every((choice: Json) => typeof choice.finish_reason === "string"), shown);
  assertEquals([Object.keys(answer), Object.keys(answer.error)], [["error"], ["message", "type", "param", "code"]], shown);
  assert(answer.error.message.length > 0 && answer.error.message.length < 600, shown);
  if (input.param !== undefined) assertEquals(answer.error.param, input.param, shown);
}

Deno.test("after every hostile input the same server gives the same greedy answer", async (t) => {
  await withRealServer({ maxBatch: 4 }, async (server) => {
    const expected = await control(server);
    assertNotEquals(expected[0].text, "");
    for (const input of HOSTILE_INPUTS) {
      await t.step(`${input.name}: ${input.status}`, async () => {
        const { status, answer } = await send(server, input);
        checkAnswer(input, status, answer);
        assertEquals(await control(server), expected, input.name);
      });
    }
    await server.untilMetric("rowlock_rows_active", 0);
    assertEquals(await server.metric("rowlock_sequences_live"), 0);
    assertEquals((await server.getJson("/health")).status, "ok");
  });
});
