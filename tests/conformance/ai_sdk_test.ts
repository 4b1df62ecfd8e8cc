/** The Vercel AI SDK against a real server. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, streamText } from "ai";
import { type RealServer, withRealServer } from "../e2e/real_server.ts";

const PROMPT = "Name three colours.";

function modelOf(server: RealServer): ReturnType<ReturnType<typeof createOpenAICompatible>["chatModel"]> {
  const provider = createOpenAICompatible({ name: "rowlock", baseURL: `${server.url}/v1`, apiKey: "none", includeUsage: true });
  return provider.chatModel("default");
}

Deno.test("the AI SDK generates and streams the same text, with reason and usage", async () => {
  await withRealServer({}, async (server) => {
    const call = { model: modelOf(server), prompt: PROMPT, temperature: 0.8, seed: 7, maxOutputTokens: 12, maxRetries: 0 };
    const expected = await server.chat(PROMPT, { temperature: 0.8, seed: 7, max_tokens: 12 });
    const whole = await generateText(call);
    assertEquals([whole.text, whole.finishReason, whole.usage.outputTokens], [expected.text, "length", 12]);
    const stream = streamText(call);
    let text = "", numParts = 0;
    for await (const part of stream.textStream) {
      text += part;
      numParts++;
    }
    assertEquals([text, await stream.finishReason], [whole.text, "length"]);
    assertEquals((await stream.usage).totalTokens, whole.usage.totalTokens);
    assert(numParts > 3, `The text came in ${numParts} parts`);
  });
});

Deno.test("the AI SDK sends stop strings and histories, and its stream can be left", async () => {
  await withRealServer({}, async (server) => {
    const model = modelOf(server);
    const open = await generateText({ model, prompt: PROMPT, temperature: 0, maxOutputTokens: 12, maxRetries: 0 });
    const stop = open.text.slice(6, 9);
    const cut = await generateText({ model, prompt: PROMPT, temperature: 0, maxOutputTokens: 12, stopSequences: [stop], maxRetries: 0 });
    assertEquals([cut.text, cut.finishReason], [open.text.slice(0, open.text.indexOf(stop)), "stop"]);
    const chat = await generateText({
      model,
      messages: [{ role: "user", content: "Hi" }, { role: "assistant", content: "Hello!" }, {
        role: "user",
        content: [{ type: "text", text: "Name a river." }],
      }],
      temperature: 0,
      maxOutputTokens: 4,
      maxRetries: 0,
    });
    assert(chat.text.length > 0);
    const abort = new AbortController();
    const stream = streamText({
      model,
      prompt: PROMPT,
      maxOutputTokens: 900,
      abortSignal: abort.signal,
      providerOptions: { rowlock: { ignore_eos: true } },
    });
    for await (const _part of stream.textStream) abort.abort();
    await server.untilMetric("rowlock_rows_active", 0);
    assert(await server.metric("rowlock_generated_tokens_total") < 300);
  });
});

Deno.test("the AI SDK shows an error's own words and does not send a refused request again", async () => {
  await withRealServer({}, async (server) => {
    const model = modelOf(server);
    const refused = await assertRejects(
      () => generateText({ model, prompt: PROMPT, temperature: -1, maxRetries: 0 }),
      APICallError,
      "temperature: must be a number from 0 to 100; found -1",
    );
    assertEquals([refused.statusCode, refused.isRetryable], [422, false]);
    await assertRejects(() => generateText({ model, prompt: "word ".repeat(3000), maxRetries: 0 }), APICallError, "1024 tokens");
  });
});
