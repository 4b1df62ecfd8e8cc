/** Eight questions that have nothing in common but that they are asked at once. */
import OpenAI from "openai";

type Ask = (client: OpenAI) => Promise<unknown>;

const MODEL = "default";

/** Each gives what is to be equal wherever it is asked: texts, reasons, logprobs, counts. */
const QUESTIONS: readonly Ask[] = [
  (client) => chat(client, "Name three rivers.", { temperature: 0, max_tokens: 24 }),
  (client) => chat(client, "Write a line about the sea.", { temperature: 0.8, top_p: 0.9, seed: 7, max_tokens: 24 }),
  (client) => chat(client, "What is bread made of?", { temperature: 1.2, seed: 2 ** 40 + 1, max_tokens: 20, n: 2 }),
  (client) => chat(client, "Count to ten.", { temperature: 0, max_tokens: 40, stop: ["5"] }),
  (client) => chat(client, "Describe a cat.", { temperature: 0.7, seed: 3, max_tokens: 16, logprobs: true, top_logprobs: 3 }),
  (client) => chat(client, "Sing a song, sing it again.", { temperature: 0.5, seed: 11, frequency_penalty: 1.5, max_tokens: 24 }),
  (client) => streamedChat(client, "Tell me about trains.", { temperature: 0.9, seed: 5, max_tokens: 24 }),
  (client) => completion(client, "Once upon a time", { temperature: 0.6, seed: 21, max_tokens: 24 }),
];

type ChatSettings = Omit<OpenAI.ChatCompletionCreateParamsNonStreaming, "model" | "messages">;

/** Asks all of them at once. */
export function askAll(url: string): Promise<unknown[]> {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
  return Promise.all(QUESTIONS.map((ask) => ask(client)));
}

async function chat(client: OpenAI, content: string, settings: ChatSettings): Promise<unknown> {
  const { choices, usage } = await client.chat.completions.create({ model: MODEL, messages: [{ role: "user", content }], ...settings });
  return { choices, numTokens: usage?.completion_tokens };
}

async function streamedChat(client: OpenAI, content: string, settings: ChatSettings): Promise<unknown> {
  const stream = await client.chat.completions.create({ model: MODEL, messages: [{ role: "user", content }], ...settings, stream: true });
  let [text, reason] = ["", ""];
  for await (const { choices: [choice] } of stream) {
    text += choice?.delta.content ?? "";
    reason = choice?.finish_reason ?? reason;
  }
  return { text, reason };
}

async function completion(
  client: OpenAI,
  prompt: string,
  settings: { temperature: number; seed: number; max_tokens: number },
): Promise<unknown> {
  const { choices } = await client.completions.create({ model: MODEL, prompt, ...settings });
  return choices;
}
