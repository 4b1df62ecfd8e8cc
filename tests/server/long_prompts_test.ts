/** Long texts and large bodies: they are read and tokenized without holding up anybody's stream. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { loadModel } from "../../src/models/checkpoint.ts";
import type { PromptJob } from "../../src/models/prompt_worker.ts";
import { ApiError } from "../../src/server/errors.ts";
import { LongPrompts } from "../../src/server/long_prompts.ts";
import { chatPromptIds, chatPromptText, completionPrompts, encodeTexts } from "../../src/server/prompts.ts";
import { serveModel } from "../../src/server/served_model.ts";
import { ChatTemplateError } from "../../src/tokenizer/chat_template.ts";
import { requireTestModel } from "../e2e/real_server.ts";
import { ByteTokenizer, fakeModel, tick } from "./fakes.ts";

const SENTENCE = "The quick brown fox, 42 times: Grüße 🎉!\n";
const LONG = SENTENCE.repeat(3000);

/** How often this thread gets to something else while `body` runs. */
async function countTurns(body: () => Promise<unknown>): Promise<number> {
  let [numTurns, isRunning] = [0, true];
  const watch = (async (): Promise<void> => {
    for (; isRunning; numTurns++) await tick(1);
  })();
  try {
    await body();
  } finally {
    isRunning = false;
    await watch;
  }
  return numTurns;
}

Deno.test("a long prompt has the ids and the text that it would have at once, and this thread goes on meanwhile", async () => {
  const loaded = loadModel(requireTestModel());
  const { path: _, ...withoutPath } = loaded;
  const [other, own] = [serveModel(loaded, 65_536, "0", 0), serveModel(withoutPath, 65_536, "0", 0)];
  const chat = {
    messages: [{ role: "user" as const, content: `<|im_end|>${LONG}` }, { role: "assistant" as const, content: "Yes" }],
    kwargs: {},
  };
  const prompts = [LONG, "short", ""];
  const options = { isEcho: false, parsesSpecial: true };
  try {
    assert(own.longPrompts === null && other.longPrompts !== null);
    // The first one waits for the thread to start.
    await encodeTexts(other, [LONG], {}, "content");
    const results: unknown[] = [];
    const [numTurnsBeside, numTurnsHere] = [
      await countTurns(async () =>
        results.push(await chatPromptIds(other, chat), await chatPromptText(other, chat), await completionPrompts(other, prompts, options))
      ),
      await countTurns(async () =>
        results.push(await chatPromptIds(own, chat), await chatPromptText(own, chat), await completionPrompts(own, prompts, options))
      ),
    ];
    assertEquals(results.slice(0, 3), results.slice(3));
    assert(numTurnsBeside > 3 * numTurnsHere, `${numTurnsBeside} turns beside the long prompt, ${numTurnsHere} with it on this thread`);
  } finally {
    other.longPrompts?.close();
  }
});

/** Tells the largest text that it was given, in bytes. */
class WatchedTokenizer extends ByteTokenizer {
  numBytes = 0;

  override encode(text: string): number[] {
    const ids = super.encode(text);
    this.numBytes = Math.max(this.numBytes, ids.length);
    return ids;
  }
}

Deno.test("no more than 8 KiB of text are tokenized or rendered at once, whatever it is made of and wherever it stands", async () => {
  const jobs: PromptJob[] = [];
  const longPrompts = new LongPrompts("unused");
  longPrompts.run = ((job: PromptJob): Promise<string | number[][]> => {
    jobs.push(job);
    return Promise.resolve(job.type === "render" ? "text" : job.type === "texts" ? job.texts.map(() => [1]) : [[1]]);
  }) as LongPrompts["run"];
  for (const character of ["x", " ", "é", "\u9f98", "\u{1f389}"]) {
    const numFit = Math.floor(7000 / new TextEncoder().encode(character).length);
    for (const [numCharacters, isLong] of [[numFit, false], [numFit * 1.2, true]] as const) {
      const text = character.repeat(numCharacters);
      const tokenizer = new WatchedTokenizer();
      const model = { ...serveModel(fakeModel({ tokenizer, maxContext: 100_000 }), 100_000, "0", 0), longPrompts };
      jobs.length = 0;
      await encodeTexts(model, [text], {}, "content");
      await completionPrompts(model, [text, "x"], { isEcho: false, parsesSpecial: false });
      await chatPromptIds(model, { messages: [{ role: "user", content: text }], kwargs: {} });
      await chatPromptText(model, { messages: [{ role: "user", content: text }], kwargs: {} });
      assertEquals([character, jobs.map(({ type }) => type)], [character, isLong ? ["texts", "texts", "chat", "render"] : []]);
      assert(tokenizer.numBytes <= 8192, `${tokenizer.numBytes} bytes`);
      assert(isLong || tokenizer.numBytes > 6900);
    }
  }
});

Deno.test("what the template refuses is refused for a long prompt too, with the template's words", async () => {
  const longPrompts = new LongPrompts(requireTestModel());
  try {
    const messages = [{ role: "user", content: LONG }];
    const job = { type: "chat" as const, messages, options: { continueFinalMessage: true } };
    await assertRejects(() => longPrompts.run(job, "messages"), ChatTemplateError, "its role is");
  } finally {
    longPrompts.close();
  }
});

Deno.test("a text that takes too long is refused by name, those after it are tokenized, and no more wait than may", async () => {
  const longPrompts = new LongPrompts(requireTestModel(), { timeoutMs: 3000, maxWaiting: 2 });
  const job = (text: string) => () => longPrompts.run({ type: "texts", texts: [text], options: {} }, "prompt");
  try {
    const slow = assertRejects(job(" ".repeat(2 ** 21)), ApiError, "prompt: must be a text that is tokenized within 3000 ms");
    const next = job("Hi")();
    const full = await assertRejects(job("Hi"), ApiError);
    assertEquals([full.status, full.code], [429, "queue_full"]);
    assertEquals([(await slow).status, (await slow).param], [400, "prompt"]);
    assertEquals((await next).length, 1);
    const waiting = assertRejects(job(" ".repeat(2 ** 21)), ApiError);
    await tick(20);
    longPrompts.close();
    assertEquals((await waiting).code, "shutting_down");
    assertEquals((await assertRejects(job("Hi"), ApiError)).code, "shutting_down");
  } finally {
    longPrompts.close();
  }
});
