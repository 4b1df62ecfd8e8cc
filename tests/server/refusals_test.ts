/** Requests that contradict themselves, ask for what is not there, or are too long to look at: refused by name, at once. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { FakeEngine, HELLO, tick } from "./fakes.ts";
import { RawConnection, rawPost, withFakeServer } from "./fake_server.ts";
import { testApp } from "./fakes.ts";

const CHAT = "/v1/chat/completions";

async function errorOf(path: string, body: unknown): Promise<{ status: number; param: string | null; message: string }> {
  const { app } = testApp();
  const response = await app.fetch(
    new Request(`http://localhost${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }),
  );
  const { error } = await response.json();
  return { status: response.status, param: error?.param ?? null, message: error?.message ?? "" };
}

Deno.test("bans that leave none of the allowed tokens are a 422 before the row begins", async () => {
  for (const bans of [{ min_tokens: 2, stop_token_ids: [30] }, { bad_words: [String.fromCharCode(30)] }]) {
    const { status, param } = await errorOf(CHAT, { ...HELLO, allowed_token_ids: [30], ...bans });
    assertEquals([status, param], [422, "allowed_token_ids"], JSON.stringify(bans));
  }
  assertEquals((await errorOf(CHAT, { ...HELLO, allowed_token_ids: [30, 31], min_tokens: 2, stop_token_ids: [30] })).status, 200);
  assertEquals((await errorOf(CHAT, { ...HELLO, allowed_token_ids: [30], stop_token_ids: [30] })).status, 200);
});

Deno.test("a repetition_penalty too small to compute with is a 422, and 0 is off", async () => {
  for (const value of [1e-320, 1e-7, -1, 101]) {
    const { status, param, message } = await errorOf(CHAT, { ...HELLO, repetition_penalty: value });
    assertEquals([status, param], [422, "repetition_penalty"]);
    assertStringIncludes(message, `found ${value}`);
  }
  for (const value of [0, 1, 1e-6, 100]) assertEquals((await errorOf(CHAT, { ...HELLO, repetition_penalty: value })).status, 200);
});

Deno.test("two spellings of the repetition penalty must agree", async () => {
  assertEquals((await errorOf(CHAT, { ...HELLO, repetition_penalty: 1.1, repeat_penalty: 1.3 })).param, "repeat_penalty");
  assertEquals((await errorOf(CHAT, { ...HELLO, repetition_penalty: 1.1, repeat_penalty: 1.1 })).status, 200);
});

Deno.test("fields of other servers that would change the answer are refused by name", async () => {
  const fields = {
    prompt_logprobs: 1,
    length_penalty: 2,
    n_probs: 5,
    include_stop_str_in_output: true,
    skip_special_tokens: false,
    smoothing_factor: 1,
  };
  for (const [name, value] of Object.entries(fields)) {
    const { status, param } = await errorOf(CHAT, { ...HELLO, [name]: value });
    assertEquals([status, param], [400, name]);
  }
});

Deno.test("a list too long for any context is refused before its items are looked at", async () => {
  const lists: [string, string, unknown[]][] = [
    ["/v1/completions", "prompt", Array.from({ length: 1025 }, () => [1])],
    ["/v1/completions", "prompt", Array(300_000).fill(1)],
    [CHAT, "messages", Array(8193).fill(null)],
    ["/detokenize", "tokens", Array(300_000).fill(1)],
  ];
  for (const [path, name, value] of lists) {
    const { status, param, message } = await errorOf(path, { [name]: value });
    assertEquals([status, param], [400, name], path);
    assertStringIncludes(message, `found ${value.length}`);
  }
});

Deno.test("bad words that are long together are refused by name, as streams would wait while they are tokenized", async () => {
  const words = (numWords: number): string[] => Array.from({ length: numWords }, (_, i) => `${i}`.padEnd(256, "x"));
  const { status, param, message } = await errorOf(CHAT, { ...HELLO, bad_words: words(17) });
  assertEquals([status, param], [400, "bad_words"]);
  assertStringIncludes(message, "at most 4096 bytes of UTF-8 together; found 4352");
  assertEquals((await testApp().post(CHAT, { ...HELLO, bad_words: words(16) })).status, 200);
  const chinese = await errorOf(CHAT, { ...HELLO, bad_words: Array.from({ length: 6 }, () => "\u9f98".repeat(256)) });
  assertStringIncludes(chinese.message, "found 4608");
});

Deno.test("the row of a stream is freed when its client leaves before the first token, however the request arrived", async () => {
  const engine = new FakeEngine(() => ({ tokens: [], isStalled: true }));
  const body = JSON.stringify({ ...HELLO, user: "x".repeat(3000), stream: true });
  await withFakeServer(engine, {}, async ({ port }) => {
    const connection = await RawConnection.open(port);
    const [head, rest] = rawPost(CHAT, body).split("\r\n\r\n") as [string, string];
    await connection.send(`${head}\r\n\r\n`);
    await tick(20);
    await connection.send(rest);
    await tick(500);
    assertEquals(engine.numLive, 1);
    connection.close();
    for (let waited = 0; engine.numLive > 0 && waited < 2000; waited += 20) await tick(20);
    assertEquals(engine.numLive, 0);
    assert(engine.cancelled.length === 1);
  });
});

Deno.test("parts that are no text are refused as not supported, with their type", async () => {
  for (const type of ["image_url", "input_audio", "file"]) {
    const { status, param, message } = await errorOf(CHAT, { messages: [{ role: "user", content: [{ type }] }] });
    assertEquals([status, param], [400, "messages[0].content[0].type"]);
    assertStringIncludes(message, `only parts of type "text" are supported; found "${type}"`);
  }
});
