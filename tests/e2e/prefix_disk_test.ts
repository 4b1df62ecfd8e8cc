/** The prefix cache on a disk as clients see it: restarts of a real server, damaged pages, a full folder, two servers at a time. */
import { assert, assertEquals } from "@std/assert";
import { heldBytes, withFolder } from "../engine/disk/pages.ts";
import { findTestModel } from "../test_model.ts";
import { type Json, type RealServer, type RealServerOptions, withRealServer } from "./real_server.ts";

const LONG = "Answer in one short sentence and never explain yourself, whatever you are asked. ";
/** About 310 tokens before the question. */
const SYSTEM = { role: "system", content: LONG.repeat(20) };

function diskTest(name: string, fn: (folder: string) => Promise<void>): void {
  Deno.test({ name, ignore: findTestModel() === null, fn: () => withFolder(fn) });
}

function options(folder: string, maxBytes = 1e9): RealServerOptions {
  return { isBatchInvariant: true, prefixCacheBytes: 2 ** 28, prefixDisk: { folder, maxBytes } };
}

interface Told {
  readonly text: string;
  readonly logprobs: Json;
  readonly numCached: number;
  readonly numPrompt: number;
}

async function ask(server: RealServer, question: string, fields: Json = {}): Promise<Told> {
  const messages = [SYSTEM, { role: "user", content: question }];
  const response = await server.post("/v1/chat/completions", {
    messages,
    max_tokens: 24,
    temperature: 0.8,
    seed: 4,
    logprobs: true,
    ...fields,
  });
  const json: Json = await response.json();
  assertEquals(response.status, 200, JSON.stringify(json));
  const { choices: [choice], usage } = json;
  const numCached = usage.prompt_tokens_details.cached_tokens;
  return { text: choice.message.content, logprobs: choice.logprobs, numCached, numPrompt: usage.prompt_tokens };
}

/** Waits until the pages of a prompt are on the disk. */
async function written(server: RealServer, numTokens: number): Promise<void> {
  const endMs = performance.now() + 10_000;
  const wanted = 2e6 * Math.floor(numTokens / 64);
  while (await server.metric("rowlock_prefix_disk_written_bytes_total") < wanted) {
    if (performance.now() > endMs) throw new Error(`The pages of ${numTokens} tokens are not written`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** All but where the prompt came from. */
function answered({ text, logprobs }: Told): unknown {
  return { text, logprobs };
}

diskTest("after a restart the same prompt hits, with the same bits in text and logprobs, and figures tell it", async (folder) => {
  const questions = ["Name a colour.", "What is 3 + 4?", "Where is Rome?"];
  const before: Told[] = [];
  await withRealServer(options(folder), async (server) => {
    for (const question of questions) before.push(await ask(server, question));
    assertEquals(await server.metric("rowlock_prefix_disk_hit_tokens_total"), 0);
  });
  await withRealServer(options(folder), async (server) => {
    const together = await Promise.all(questions.map((question) => ask(server, question)));
    for (const [i, told] of together.entries()) {
      assertEquals(answered(told), answered(before[i]!));
      assert(
        told.numCached >= 256 && told.numCached === 64 * Math.floor((told.numPrompt - 1) / 64),
        `${told.numCached} of ${told.numPrompt}`,
      );
    }
    // In turns of a chat the answer is a hit, too: what it left was written as well.
    assert(await server.metric("rowlock_prefix_disk_hit_tokens_total") >= 256);
    assertEquals(await server.metric("rowlock_prefix_disk_damaged_total"), 0);
    assertEquals(await server.metric("rowlock_prefix_disk_dropped_total"), 0);
    assert(await server.metric("rowlock_prefix_disk_read_bytes_total") > 10e6);
    await server.untilMetric("rowlock_prefix_disk_bytes", await heldBytes(folder));
    assertEquals((await ask(server, questions[0]!, { cache_salt: "somebody else" })).numCached, 0);
  });
  // Without the disk, and in another mode of computing, nothing is found.
  await withRealServer({ ...options(folder), isBatchInvariant: false }, async (server) => {
    assertEquals((await ask(server, questions[0]!)).numCached, 0);
  });
});

diskTest("two servers on one folder share what they have, and keep it within its size together", async (folder) => {
  // Room for about 20 pages of 3 MB.
  const shared = options(folder, 60e6);
  await withRealServer(shared, (first) =>
    withRealServer(shared, async (second) => {
      const told = await ask(first, "Name a colour.");
      await written(first, told.numPrompt);
      const same = await ask(second, "Name a colour.");
      assertEquals([answered(same), same.numCached], [answered(told), 256]);
      const questions = Array.from({ length: 6 }, (_, i) => `Is ${i} even? `.repeat(60));
      const answers = await Promise.all(questions.map((question, i) => ask(i % 2 === 0 ? first : second, question, { max_tokens: 2 })));
      for (const { numPrompt } of answers) assert(numPrompt > 600, `${numPrompt} tokens`);
      assert(await heldBytes(folder) <= 60e6, `${await heldBytes(folder)} bytes`);
    }));
  assert(await heldBytes(folder) <= 60e6, `${await heldBytes(folder)} bytes`);
  await withRealServer(shared, async (third) => assert((await ask(third, "Name a colour.")).text !== ""));
});

diskTest("a folder that goes away, comes back full of other things or cannot be written fails no request", async (folder) => {
  const inside = `${folder}/pages`;
  const before: Told[] = [];
  await withRealServer(options(inside), async (server) => {
    before.push(await ask(server, "Name a colour."));
    await written(server, before[0]!.numPrompt);
    await Deno.remove(inside, { recursive: true });
    await Deno.writeTextFile(inside, "no folder");
    assertEquals(answered(await ask(server, "Name a colour.")), answered(before[0]!));
    before.push(await ask(server, "Where is Rome?", { cache_salt: "b" }));
  });
  // Started without a folder: nothing but a warning.
  await withRealServer(options(inside), async (server) => {
    assertEquals(answered(await ask(server, "Name a colour.")), answered(before[0]!));
    assertEquals(answered(await ask(server, "Where is Rome?", { cache_salt: "b" })), answered(before[1]!));
    assert(await server.metric("rowlock_prefix_disk_dropped_total") > 0);
  });
});
