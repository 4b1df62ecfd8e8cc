/** One request among many random ones: what it gets must not depend on them, to the last bit of every logprob. */
import { assert, assertEquals } from "@std/assert";
import { ServerProcess } from "../cli/cli_process.ts";
import { uniformNumbers } from "../sampler/row_sampler.ts";
import { type Json, RealServer, requireTestModel } from "./real_server.ts";

const NUM_ROUNDS = 10;
const NUM_FILLERS = 32;

const NEEDLE = {
  prompt: "The old lighthouse keeper climbed the stairs and looked out over the dark sea, where",
  temperature: 0.9,
  top_p: 0.95,
  seed: 42,
  max_tokens: 12,
  logprobs: 5,
  ignore_eos: true,
  return_token_ids: true,
};

const WORDS = ["river", "stone", "the", "seven", "of", "night", "Paris", "quickly", "machine", "and", "blue", "when", "she", "0.5"];

/** A short random request: each its own prompt, length, sampling and extras. */
function filler(uniform: () => number): Record<string, unknown> {
  const words = Array.from({ length: 1 + Math.floor(8 * uniform()) }, () => WORDS[Math.floor(WORDS.length * uniform())]);
  return {
    prompt: words.join(" "),
    max_tokens: 1 + Math.floor(12 * uniform()),
    temperature: uniform() < 0.3 ? 0 : 2 * uniform(),
    top_k: uniform() < 0.5 ? 0 : 1 + Math.floor(100 * uniform()),
    min_p: uniform() < 0.5 ? 0 : 0.2 * uniform(),
    frequency_penalty: uniform() < 0.5 ? 0 : uniform(),
    ...(uniform() < 0.3 ? { logprobs: 3 } : {}),
  };
}

async function complete(server: RealServer, body: Record<string, unknown>): Promise<Json> {
  const response = await server.post("/v1/completions", body);
  const json = await response.json();
  assertEquals(response.status, 200, JSON.stringify(json));
  return json.choices[0];
}

/** The needle's answer in a crowd that it joins at a random place. */
async function amongFillers(server: RealServer, uniform: () => number): Promise<Json> {
  const place = Math.floor(NUM_FILLERS * uniform());
  let needle: Promise<Json> | null = null;
  const fillers: Promise<Json>[] = [];
  for (let i = 0; i < NUM_FILLERS; i++) {
    if (i === place) needle = complete(server, NEEDLE);
    fillers.push(complete(server, filler(uniform)));
    if (uniform() < 0.2) await new Promise((resolve) => setTimeout(resolve, 30 * uniform()));
  }
  await Promise.all(fillers);
  return await needle;
}

/** The needle's answer alone, and in as many crowds as it takes until `isEnough`. */
async function needleAnswers(flags: readonly string[], isEnough: (alone: Json, crowd: Json) => boolean): Promise<[Json, Json[]]> {
  await using process = await ServerProcess.start("--model", requireTestModel(), "--max-batch", "24", "--log-level", "error", ...flags);
  const server = new RealServer(process.url);
  const uniform = uniformNumbers(2026);
  const alone = await complete(server, NEEDLE);
  const crowds: Json[] = [];
  for (let round = 0; round < NUM_ROUNDS; round++) {
    crowds.push(await amongFillers(server, uniform));
    if (isEnough(alone, crowds[round])) break;
  }
  const rows = await server.metric("rowlock_step_rows_sum") / await server.metric("rowlock_step_rows_count");
  assert(rows > 6, `${rows} rows shared a step on average: the needle was hardly in a crowd`);
  return [alone, crowds];
}

Deno.test("with --batch-invariant a request has the same text and the same bits of logprobs alone and in ten random crowds", async () => {
  const [alone, crowds] = await needleAnswers(["--batch-invariant"], () => false);
  assertEquals(alone.token_ids.length, NEEDLE.max_tokens);
  assertEquals(alone.logprobs.token_logprobs.length, NEEDLE.max_tokens);
  for (const crowd of crowds) assertEquals(crowd, alone);
  assertEquals(crowds.length, NUM_ROUNDS);
});

Deno.test("on a CPU the needle needs no flag, and with MLX's kernels in place of our own it does", async () => {
  const isOther = (alone: Json, crowd: Json): boolean => JSON.stringify(crowd.logprobs) !== JSON.stringify(alone.logprobs);
  const [alone, crowds] = await needleAnswers([], isOther);
  assertEquals(crowds.filter((crowd) => isOther(alone, crowd)), []);
  Deno.env.set("ROWLOCK_CPU_KERNELS", "mlx");
  try {
    const [aloneWithMlx, crowdsWithMlx] = await needleAnswers([], isOther);
    assert(isOther(aloneWithMlx, crowdsWithMlx.at(-1)), "Ten crowds changed no bit: the needle proves nothing");
    assertEquals(aloneWithMlx.text, alone.text);
  } finally {
    Deno.env.delete("ROWLOCK_CPU_KERNELS");
  }
});
