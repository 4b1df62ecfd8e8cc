/** Models from the hub, several at once, and without a tokenizer, through the real server and the real engine. */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { UsageError } from "../../src/cli/flags.ts";
import { modelNames } from "../../src/cli/serve_models.ts";
import { FakeHub, withEnvironment, withFolder } from "../hub/fake_hub.ts";
import { eventsOf, type Json } from "../server/fakes.ts";
import { runMain, ServerProcess, TINY_MODEL } from "./cli_process.ts";

const OTHER_MODEL = fileURLToPath(new URL("../fixtures/golden/mistral", import.meta.url));

async function goldenOf(folder: string): Promise<{ tokens: number[]; greedy: number[] }> {
  return JSON.parse(await Deno.readTextFile(join(folder, "golden.json"))).prompts[1];
}

function post(url: string, body: Json): Promise<Response> {
  return fetch(`${url}/v1/completions`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

/** A greedy request that ends with the golden continuation. */
async function goldenRequest(folder: string): Promise<{ body: Json; greedy: number[] }> {
  const { tokens, greedy } = await goldenOf(folder);
  return { greedy, body: { prompt: tokens, max_tokens: greedy.length, temperature: 0, ignore_eos: true, return_token_ids: true } };
}

Deno.test("a checkpoint without a tokenizer goes on from ids with the golden ids, stream or not", async () => {
  await using server = await ServerProcess.start("--model", TINY_MODEL, "--log-level", "error");
  const { body, greedy } = await goldenRequest(TINY_MODEL);
  const [choice] = (await (await post(server.url, { ...body, logprobs: 2 })).json()).choices;
  assertEquals([choice.text, choice.token_ids, choice.prompt_token_ids], ["", greedy, body.prompt]);
  assertEquals(choice.logprobs.tokens, greedy.map((id) => `token_id:${id}`));
  assertEquals(Object.keys(choice.logprobs.top_logprobs[0]).every((name) => /^token_id:\d+$/.test(name)), true);
  const events = eventsOf(await (await post(server.url, { ...body, stream: true })).text());
  assertEquals(events.flatMap((event) => event.choices[0].token_ids), greedy);
  const text = await post(server.url, { ...body, prompt: "text" });
  assertEquals([text.status, (await text.json()).error.param], [400, "prompt"]);
});

Deno.test("several models answer side by side, each with its own weights, loaded when they are asked for", async () => {
  await using server = await ServerProcess.start("--models", `${TINY_MODEL},${OTHER_MODEL}`, "--log-level", "error");
  const health = async (): Promise<Json> => await (await fetch(`${server.url}/health`)).json();
  assertEquals((await health()).models.map(({ id, status }: Json) => [id, status]), [["llama-tied-f32", "unloaded"], [
    "mistral",
    "unloaded",
  ]]);
  const requests = await Promise.all([TINY_MODEL, OTHER_MODEL].map(goldenRequest));
  const answers = await Promise.all([0, 1, 0, 1].map(async (i): Promise<unknown> => {
    const model = ["llama-tied-f32", "mistral"][i];
    const answer = await (await post(server.url, { ...requests[i]!.body, model })).json();
    return [answer.model, answer.choices[0].token_ids];
  }));
  const expected = [["llama-tied-f32", requests[0]!.greedy], ["mistral", requests[1]!.greedy]];
  assertEquals(answers, [...expected, ...expected]);
  assertEquals((await health()).models.map(({ status }: Json) => status), ["loaded", "loaded"]);
});

Deno.test("a model of the hub is fetched, served under its name, and later served without the hub", async () => {
  await withFolder(async (folder) => {
    const cache = { HF_HUB_CACHE: join(folder, "hub"), HF_HOME: folder };
    const { body, greedy } = await goldenRequest(TINY_MODEL);
    const ask = async (): Promise<void> => {
      await using server = await ServerProcess.start("--model", "acme/tiny-model", "--log-level", "error");
      const answer = await (await post(server.url, { ...body, model: "acme/tiny-model" })).json();
      assertEquals([answer.model, answer.choices[0].token_ids], ["acme/tiny-model", greedy]);
    };
    await using hub = new FakeHub();
    hub.files = new Map();
    for (const name of ["config.json", "model.safetensors"]) hub.files.set(name, await Deno.readFile(join(TINY_MODEL, name)));
    await withEnvironment({ ...cache, HF_ENDPOINT: hub.endpoint }, ask);
    hub.seen.length = 0;
    await withEnvironment({ ...cache, HF_ENDPOINT: hub.endpoint, HF_HUB_OFFLINE: "1" }, ask);
    assertEquals(hub.paths, []);
  });
});

Deno.test("a model that is too large for --memory is one line before the server listens", async () => {
  const { code, stderr } = await runMain("serve", "--port", "0", "--model", OTHER_MODEL, "--memory", "0.001");
  assertEquals(code, 1);
  assertStringIncludes(stderr, "--memory allows 1 MB");
});

Deno.test("--models is a list of names, and takes the place of --model", () => {
  assertEquals(modelNames({ model: null, models: null }), [null]);
  assertEquals(modelNames({ model: "a", models: null }), ["a"]);
  assertEquals(modelNames({ model: null, models: "a, org/b:Q4" }), ["a", "org/b:Q4"]);
  assertThrows(() => modelNames({ model: "a", models: "b" }), UsageError, "--model and --models are both given");
  assertThrows(() => modelNames({ model: null, models: "a,,b" }), UsageError, '--models is "a,,b"');
});
