/** The prefix cache as clients see it: the turns of a chat over a real server. */
import { assert, assertEquals } from "@std/assert";
import { findTestModel } from "../test_model.ts";
import { type Json, type RealServer, withRealServer } from "./real_server.ts";

const SYSTEM = { role: "system", content: `You are terse. ${"Answer in one short sentence and never explain yourself. ".repeat(20)}` };

async function chat(server: RealServer, messages: readonly Json[], fields: Json = {}): Promise<{ text: string; usage: Json }> {
  const body = { messages, max_tokens: 40, temperature: 0.8, seed: 4, ...fields };
  const { choices, usage } = await (await server.post("/v1/chat/completions", body)).json();
  return { text: choices[0].message.content, usage };
}

/** Three turns, then other questions behind the same system prompt at the same time. */
async function talk(server: RealServer): Promise<{ texts: string[]; cached: number[] }> {
  const messages: Json[] = [SYSTEM];
  const answers = [];
  for (const question of ["Name a colour.", "Why that one?", "Name another."]) {
    messages.push({ role: "user", content: question });
    const answer = await chat(server, messages);
    answers.push(answer);
    messages.push({ role: "assistant", content: answer.text });
  }
  const others = Array.from({ length: 8 }, (_, i) => chat(server, [SYSTEM, { role: "user", content: `What is ${i} + ${i}?` }]));
  answers.push(...await Promise.all(others));
  const cached = answers.map(({ usage }) => usage.prompt_tokens_details.cached_tokens);
  for (const [i, { usage }] of answers.entries()) assert(cached[i] < usage.prompt_tokens);
  return { texts: answers.map(({ text }) => text), cached };
}

Deno.test({
  name: "turns of a chat and requests with one system prompt take what was computed before, and get the same texts as without a cache",
  ignore: findTestModel() === null,
  async fn(): Promise<void> {
    const options = { isBatchInvariant: true };
    let without: string[] = [];
    await withRealServer(options, async (server) => {
      const { texts, cached } = await talk(server);
      without = texts;
      assertEquals(cached, cached.map(() => 0));
    });
    await withRealServer({ ...options, prefixCacheBytes: 2 ** 28 }, async (server) => {
      const { texts, cached } = await talk(server);
      assertEquals(texts, without);
      const [first, second = 0, third = 0, ...others] = cached;
      assert(first === 0 && second >= 192 && third >= second && others.every((count) => count >= 192), cached.join(" "));
      assertEquals(
        (await chat(server, [SYSTEM, { role: "user", content: "Name a colour." }], { cache_prompt: false })).usage.prompt_tokens_details,
        {
          cached_tokens: 0,
        },
      );
      const page = await (await fetch(`${server.url}/metrics`)).text();
      const hits = Number(/^rowlock_prefix_hit_tokens_total (\d+)$/m.exec(page)?.[1]);
      assertEquals(hits, cached.reduce((sum, count) => sum + count, 0));
    });
  },
});
