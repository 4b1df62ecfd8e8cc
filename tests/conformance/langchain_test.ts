/** LangChain's OpenAI classes against a real server. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { AIMessage, HumanMessage, SystemMessage } from "@langchain/core/messages";
import { ChatOpenAI, OpenAI } from "@langchain/openai";
import { type RealServer, withRealServer } from "../e2e/real_server.ts";

const PROMPT = "Name three colours.";

function settings(
  server: RealServer,
): { readonly apiKey: string; readonly maxRetries: number; readonly configuration: { baseURL: string } } {
  return { apiKey: "none", maxRetries: 0, configuration: { baseURL: `${server.url}/v1` } };
}

/** LangChain's own type of a message says that it never has what it has. */
function outputTokens(message: object): number {
  return (message as { usage_metadata?: { output_tokens: number } }).usage_metadata?.output_tokens ?? 0;
}

Deno.test("LangChain's chat model answers, streams, batches and counts", async () => {
  await withRealServer({}, async (server) => {
    const chat = new ChatOpenAI({
      ...settings(server),
      model: "default",
      temperature: 0.8,
      maxTokens: 12,
      modelKwargs: { seed: 7 },
    });
    const expected = (await server.chat(PROMPT, { temperature: 0.8, seed: 7, max_tokens: 12 })).text;
    const whole = await chat.invoke([new HumanMessage(PROMPT)]);
    assertEquals([whole.content, outputTokens(whole)], [expected, 12]);
    assertEquals(whole.response_metadata["finish_reason"], "length");
    let text = "", numOutputTokens = 0;
    for await (const chunk of await chat.stream([new HumanMessage(PROMPT)])) {
      text += chunk.content;
      numOutputTokens += outputTokens(chunk);
    }
    assertEquals([text, numOutputTokens], [expected, 12]);
    const batch = await chat.batch([[new HumanMessage(PROMPT)], [new SystemMessage("Be short."), new HumanMessage("Hi")]]);
    assertEquals([batch.length, batch[0]!.content], [2, expected]);
    const history = [new HumanMessage("Hi"), new AIMessage("Hello!"), new HumanMessage([{ type: "text", text: "Name a river." }])];
    assert((await chat.invoke(history)).content.length > 0);
  });
});

Deno.test("LangChain's completion model answers several prompts, and its errors carry status and code", async () => {
  await withRealServer({}, async (server) => {
    const completion = new OpenAI({ ...settings(server), model: "default", temperature: 0, maxTokens: 6 });
    const { generations } = await completion.generate(["The sky is", "One, two,"]);
    assertEquals(generations.map((choices) => choices.length), [1, 1]);
    const direct = await (await server.post("/v1/completions", { prompt: "The sky is", temperature: 0, max_tokens: 6 })).json();
    assertEquals(generations[0]![0]!.text, direct.choices[0].text);
    const wrong = new ChatOpenAI({ ...settings(server), model: "absent", temperature: 0 });
    const error = await assertRejects(() => wrong.invoke(PROMPT), Error, "absent");
    assertEquals((error as { status?: number }).status, 404);
  });
});
