/** Memory that is short, as clients see it: they wait, and get the same answers. */
import { assert, assertEquals } from "@std/assert";
import { EngineClient } from "../../src/engine/client.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { findLibrary } from "../../src/native/library.ts";
import { findTestModel } from "../test_model.ts";
import { type Json, type RealServer, requireTestModel, withRealServer } from "./real_server.ts";

const QUESTIONS = [
  "Name a colour.",
  "Tell me about the sea.",
  "Why is the sky blue?",
  "Count to ten.",
  "What is a verb?",
  "Describe a cat.",
];

/** What the default model needs for one row of `numTokens`. */
async function leastBytes(numTokens: number): Promise<number> {
  const limits = { maxBatch: 16, maxContext: numTokens, maxQueue: 1, prefillChunk: 256 };
  const engine = await EngineClient.start({ ...limits, libraryPath: findLibrary(), model: loadModel(requireTestModel()).spec });
  const { leastBytes = 0 } = engine.facts;
  await engine.close();
  return leastBytes;
}

/** Answers of several lengths at once, without what tells how they were computed. */
async function ask(server: RealServer): Promise<unknown[]> {
  const answers = await Promise.all(QUESTIONS.map(async (content, i) => {
    const fields = {
      max_tokens: 60 + 15 * i,
      ignore_eos: true,
      temperature: 0.9,
      seed: i,
      logprobs: true,
      top_logprobs: 2,
      frequency_penalty: 0.2,
    };
    const response = await server.post("/v1/chat/completions", { messages: [{ role: "user", content }], ...fields });
    return await response.json();
  }));
  return answers.map((
    { choices, usage: { prompt_tokens, completion_tokens }, error }: Json,
  ) => [error, choices, prompt_tokens, completion_tokens]);
}

Deno.test({
  name:
    "a server whose memory is short lets rows give way: every answer, logprob and count is that of a server with plenty, and none is refused",
  ignore: findTestModel() === null,
  async fn(): Promise<void> {
    const options = { isBatchInvariant: true, prefixCacheBytes: 2 ** 28 };
    let plenty: unknown[] = [];
    await withRealServer(options, async (server) => {
      plenty = await ask(server);
      assertEquals(await server.metric("rowlock_preemptions_total"), 0);
    });
    const memoryBytes = await leastBytes(448);
    await withRealServer({ ...options, memoryBytes }, async (server) => {
      assertEquals(await ask(server), plenty);
      assert(await server.metric("rowlock_preemptions_total") > 0, "Nobody gave way");
      assertEquals(await server.metric("rowlock_memory_limit_bytes"), memoryBytes);
      const held = await server.metric("rowlock_weight_bytes") + await server.metric("rowlock_kv_bytes") +
        await server.metric("rowlock_prefix_bytes");
      assert(held <= memoryBytes, `${held} bytes are held, ${memoryBytes} are allowed`);
      const refused = await server.post("/v1/completions", { prompt: Array(448).fill(5), max_tokens: 1 });
      const { error } = await refused.json();
      assertEquals([refused.status, error.code], [400, "context_length_exceeded"]);
      assert(error.message.includes("holds 448 tokens of one request"), error.message);
    });
  },
});
