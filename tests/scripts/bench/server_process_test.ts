import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SILENT } from "../../../src/hub/progress.ts";
import type { Load } from "../../../scripts/bench/peers/loads.ts";
import { PromptMaker } from "../../../scripts/bench/peers/prompts.ts";
import { runRounds, START } from "../../../scripts/bench/peers/rounds.ts";
import { type Launch, ServerProcess } from "../../../scripts/bench/peers/server_process.ts";

/** A server that answers every request with one piece of text; the placeholder is its port. */
const FAKE = `console.log("about to listen");
Deno.serve({ hostname: "127.0.0.1", port: PORT, onListen() {} }, () =>
  new Response('data: {"choices":[{"delta":{"content":"Hi"}}]}\\n\\ndata: [DONE]\\n\\n'));`;

/** Every character is a token. */
const PROMPTS = new PromptMaker(
  { encode: (text) => [...text].map((char) => char.codePointAt(0)!), decode: (ids) => String.fromCodePoint(...ids) },
  { render: ([message]) => `<${message?.["content"]}>` },
);

function fake(code = FAKE): Launch {
  const command = (port: number): string[] => [Deno.execPath(), "eval", code.replace("PORT", `${port}`)];
  return { name: "fake", model: "m", command, env: { NO_COLOR: "1" } };
}

Deno.test("a server is started, gives a token, has memory, and is gone afterwards", async () => {
  let url = "";
  {
    const started = await ServerProcess.start(fake(), AbortSignal.timeout(30_000));
    await using process = started.process;
    url = process.server.url;
    assert(started.firstTokenMs > 0);
    assert(await process.residentBytes() > 1e6);
  }
  await assertRejects(() => fetch(url), TypeError);
});

Deno.test("a server that ends before it listens is an error with its last words", async () => {
  const error = await assertRejects(
    () => ServerProcess.start(fake('console.error("no such model"); Deno.exit(3);'), AbortSignal.timeout(30_000)),
    Error,
  );
  assertStringIncludes(error.message, "fake did not start: it ended with exit code 3\nno such model");
});

Deno.test("a load that fails is noted, the server is started anew for the next one, and rounds give medians", async () => {
  const values = [1, 5, 3];
  const urls: string[] = [];
  const load = (key: string, run: Load["run"]): Load => ({ key, title: key, measures: [], run });
  const loads = [
    load("breaks", ({ server }) => {
      urls.push(server.url);
      return Promise.reject(new Error("broken\nat length"));
    }),
    load("hangs", ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)))),
    load("works", ({ server }) => {
      urls.push(server.url);
      return Promise.resolve({ value: values.shift()! });
    }),
  ];
  const settings = { maxRounds: 3, budgetMs: 60_000, loadTimeoutMs: 200 };
  const { results, numRounds } = await runRounds([fake()], loads, PROMPTS, settings, SILENT);
  assertEquals(numRounds, 3);
  assertEquals(results.median("fake", "works", "value"), 3);
  assertEquals(results.fault("fake", "breaks"), "broken");
  assertEquals(results.fault("fake", "hangs"), "took more than 0.2 s");
  assert(results.median("fake", START.key, "firstTokenMs") > 0);
  assertEquals(new Set(urls).size, urls.length);
});

Deno.test("prompts have the wanted number of tokens in the template, equal ones for equal seeds, and begin with their prefix", () => {
  const inTemplate = (content: string): number => content.length + "<>".length;
  for (const numTokens of [200, 500]) assertEquals(inTemplate(PROMPTS.message(numTokens, 3)), numTokens + 1);
  assertEquals(inTemplate(PROMPTS.message(400, 3, "A prefix. ")), 401);
  assert(PROMPTS.message(400, 3, "A prefix. ").startsWith("A prefix. "));
  assertEquals(PROMPTS.message(200, 3), PROMPTS.message(200, 3));
  assert(PROMPTS.message(200, 3).slice(0, 40) !== PROMPTS.message(200, 4).slice(0, 40));
});
