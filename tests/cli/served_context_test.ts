/** What the flags decide about a model's computation, seen through the real server. */
import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import type { Json } from "../server/fakes.ts";
import { ServerProcess } from "./cli_process.ts";

function folderOf(name: string): string {
  return fileURLToPath(new URL(`../fixtures/golden/${name}`, import.meta.url));
}

/** The greedy continuation of the golden prompt `index` by a server with `flags`, and the golden one. */
async function continuations(name: string, index: number, ...flags: string[]): Promise<{ found: number[]; golden: number[]; log: string }> {
  const { tokens, greedy } = JSON.parse(await Deno.readTextFile(`${folderOf(name)}/golden.json`)).prompts[index] as Json;
  await using server = await ServerProcess.start("--model", folderOf(name), "--log-level", "error", ...flags);
  const answer = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt: tokens, max_tokens: greedy.length, temperature: 0, ignore_eos: true, return_token_ids: true }),
  });
  return { found: (await answer.json()).choices[0].token_ids, golden: greedy, log: server.output };
}

Deno.test("LongRoPE takes the factors of the context that is served, whatever a request's length", async () => {
  const long = await continuations("phi3-longrope", 1, "--max-context", "80");
  assertEquals(long.found, long.golden);
  const short = await continuations("phi3-longrope-short", 2, "--max-context", "32");
  assertEquals(short.found, short.golden);
  assertNotEquals((await continuations("phi3-longrope-short", 2, "--max-context", "80")).found, short.golden);
});

Deno.test("the types of weights are told at the start, and --dtype chooses them", async () => {
  const kept = await continuations("llama-bf16", 1);
  assertEquals(kept.found, kept.golden);
  assertMatch(kept.log, /weights as stored: 1 MB of the [\d.]+ [MG]B that they may take/);
  const wide = await continuations("llama-bf16", 1, "--dtype", "float32");
  assertEquals(wide.found, wide.golden);
  assertMatch(wide.log, /weights in float32, by --dtype: 1 MB/);
});
