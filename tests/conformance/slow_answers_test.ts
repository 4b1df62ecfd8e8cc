/** Clients whose answers are not streamed and come late: white space stands before the JSON. */
import { assertEquals } from "@std/assert";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { HumanMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { generateText } from "ai";
import { fileURLToPath } from "node:url";
import OpenAI from "openai";
import { pythonPackages } from "../../scripts/testing/python_packages.ts";
import { runCommand } from "../../src/hub/command.ts";
import { FakeEngine, say } from "../server/fakes.ts";
import { withFakeServer } from "../server/fake_server.ts";

const TEXT = "Grüße 🎉";
const PROMPT = "Hi";
const SCRIPT = fileURLToPath(new URL("./python_slow_answer.py", import.meta.url));

const packages = await pythonPackages("openai", ["openai==3.57.0"]);
if ("missing" in packages) console.log(`The Python client is not tested: ${packages.missing}`);

/** The headers are out long before the text, and several spaces too. */
async function withLateAnswers(body: (url: string) => Promise<void>): Promise<void> {
  await withFakeServer(new FakeEngine(() => ({ tokens: say(TEXT), delayMs: 500 })), { keepAliveMs: 100 }, ({ url }) => body(`${url}/v1`));
}

Deno.test("the official client reads a late answer", async () => {
  await withLateAnswers(async (baseURL) => {
    const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
    const chat = await client.chat.completions.create({ model: "default", messages: [{ role: "user", content: PROMPT }] });
    assertEquals([chat.choices[0]!.message.content, chat.choices[0]!.finish_reason], [TEXT, "stop"]);
    assertEquals((await client.completions.create({ model: "default", prompt: PROMPT })).choices[0]!.text, TEXT);
  });
});

Deno.test("the AI SDK and LangChain read late answers", async () => {
  await withLateAnswers(async (baseURL) => {
    const provider = createOpenAICompatible({ name: "rowlock", baseURL, apiKey: "none" });
    const { text, finishReason } = await generateText({ model: provider.chatModel("default"), prompt: PROMPT, maxRetries: 0 });
    assertEquals([text, finishReason], [TEXT, "stop"]);
    const chain = new ChatOpenAI({ apiKey: "none", maxRetries: 0, configuration: { baseURL }, model: "default" });
    assertEquals((await chain.invoke([new HumanMessage(PROMPT)])).content, TEXT);
  });
});

Deno.test({
  name: "the official Python client reads a late answer",
  ignore: "missing" in packages,
  fn: async () => {
    if ("missing" in packages) return;
    const { env } = packages;
    await withLateAnswers(async (baseUrl) => {
      const output = await runCommand(["python3", SCRIPT, baseUrl, PROMPT], { env, timeoutMs: 120_000 });
      assertEquals(JSON.parse(output.at(-1) ?? ""), [TEXT, "stop", TEXT]);
    });
  },
});
