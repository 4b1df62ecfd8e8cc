import { assert, assertEquals } from "@std/assert";
import type { RowUpdate } from "../../src/engine/messages.ts";
import { FakeEngine, HELLO, type Json, say, type TestApp, testApp } from "./fakes.ts";

/** An engine whose requests have taken 3 prompt tokens more each than the one before, but the first, which has taken `first`. */
class CachingEngine extends FakeEngine {
  constructor(readonly first: number) {
    super(() => ({ tokens: say("Hi"), tokensPerStep: 5 }));
  }

  protected override changed(update: RowUpdate, index: number): RowUpdate {
    const cachedTokens = this.first + 3 * index;
    return cachedTokens === 0 ? update : { ...update, cachedTokens };
  }
}

async function cachedTokens(app: TestApp, path: string, body: Json): Promise<number> {
  const { usage } = await (await app.post(path, body)).json();
  return usage.prompt_tokens_details.cached_tokens;
}

Deno.test("usage tells how many prompt tokens came from the prefix cache, in whole answers and in streams", async () => {
  assertEquals(await cachedTokens(testApp(new CachingEngine(4)), "/v1/chat/completions", HELLO), 4);
  assertEquals(await cachedTokens(testApp(new CachingEngine(0)), "/v1/chat/completions", HELLO), 0);
  const body = { ...HELLO, stream: true, stream_options: { include_usage: true } };
  const text = await (await testApp(new CachingEngine(4)).post("/v1/chat/completions", body)).text();
  const chunks = text.split("\n\n").filter((line) => line.startsWith("data: {")).map((line) => JSON.parse(line.slice(6)));
  assertEquals(chunks.at(-1).usage.prompt_tokens_details, { cached_tokens: 4 });
});

Deno.test("each prompt counts once, by what no choice had to compute", async () => {
  const { model } = HELLO as Json;
  const body = { model, prompt: ["a", "b"], n: 2 };
  // Taken: 1 and 4 for the choices of one prompt, 7 and 10 for those of the other.
  assertEquals(await cachedTokens(testApp(new CachingEngine(1)), "/v1/completions", body), 1 + 7);
});

Deno.test("a request's wishes reach the engine: no cache, and a salt of its own", async () => {
  const app = testApp(new FakeEngine());
  const bodies = [{}, { cache_prompt: true, cache_salt: null }, { cache_prompt: false }, { cache_salt: "tenant" }];
  for (const fields of bodies) assertEquals((await app.post("/v1/chat/completions", { ...HELLO, ...fields })).status, 200);
  const found = app.engine.requests.map(({ cachePrompt, cacheSalt }) => [cachePrompt, cacheSalt]);
  assertEquals(found, [[undefined, undefined], [undefined, undefined], [false, undefined], [undefined, "tenant"]]);
});

Deno.test("a salt that is no text of 1 to 256 characters is refused by name", async () => {
  const app = testApp(new FakeEngine());
  for (const [cache_salt, found] of [["", "found 0"], ["x".repeat(257), "found 257"], [5, "found 5"]] as const) {
    const response = await app.post("/v1/completions", { prompt: "a", cache_salt });
    const { error } = await response.json();
    assertEquals([response.status, error.param], [400, "cache_salt"]);
    assert(error.message.includes(found), error.message);
  }
});

Deno.test("the metrics tell queries, hits, pages, bytes and evictions, and zeros without a prefix cache", async () => {
  const app = testApp(new FakeEngine());
  const page = async (): Promise<string> => await (await app.get("/metrics")).text();
  assert((await page()).includes("rowlock_prefix_pages 0\n"));
  const disk = { hitTokens: 192, readBytes: 300, writtenBytes: 200, numDropped: 5, numDamaged: 1, heldBytes: 900 };
  app.engine.step({ prefix: { queries: 3, queryTokens: 500, hitTokens: 256, pages: 7, bytes: 4096, evictions: 2, disk } });
  const text = await page();
  for (
    const line of [
      "rowlock_prefix_queries_total 3",
      "rowlock_prefix_query_tokens_total 500",
      "rowlock_prefix_hit_tokens_total 256",
      "rowlock_prefix_pages 7",
      "rowlock_prefix_bytes 4096",
      "rowlock_prefix_evictions_total 2",
      "rowlock_prefix_disk_hit_tokens_total 192",
      "rowlock_prefix_disk_read_bytes_total 300",
      "rowlock_prefix_disk_written_bytes_total 200",
      "rowlock_prefix_disk_dropped_total 5",
      "rowlock_prefix_disk_damaged_total 1",
      "rowlock_prefix_disk_bytes 900",
    ]
  ) assert(text.includes(`${line}\n`), `${line} is not in\n${text}`);
});
