/** What the prefix cache does for rows, over the fake backend: its texts are hashes of what the slots really hold. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { EngineCore } from "../../src/engine/engine_core.ts";
import { PAGE_TOKENS } from "../../src/engine/prefix_cache.ts";
import { FakeBackend, type FakeFaults } from "./fake_backend.ts";
import { BREAKING_TOKEN } from "./fake_draw.ts";
import { cachedTokens, checkPlannedTexts, checkTexts, plannedRequests, prefixPlans, prompt, submitPlanned } from "./prefix_plans.ts";
import { CoreRun, LIMITS, request } from "./requests.ts";

const PAGE_BYTES = 8 * PAGE_TOKENS;

function withCache(options: { readonly numPages?: number; readonly faults?: FakeFaults; readonly isRecurrent?: boolean } = {}): {
  run: CoreRun;
  backend: FakeBackend;
} {
  const { numPages = 1000, faults = {}, isRecurrent = false } = options;
  const backend = new FakeBackend(faults);
  backend.isRecurrent = isRecurrent;
  return { run: CoreRun.with(backend, { prefixCacheBytes: numPages * PAGE_BYTES }), backend };
}

const MODELS = [["keys and values", false], ["recurrent states", true]] as const;

for (const [what, isRecurrent] of MODELS) {
  Deno.test(`with ${what}, a prompt takes the whole pages that one before it has left, and all but its last token at most`, () => {
    const { run, backend } = withCache({ isRecurrent });
    const requests = [
      request("first", { promptIds: prompt(200) }),
      request("same", { promptIds: prompt(200) }),
      request("border", { promptIds: prompt(192) }),
      request("longer", { promptIds: [...prompt(200), 5, 6, 7] }),
      request("other", { promptIds: [9, ...prompt(200)] }),
    ];
    for (const one of requests) run.submit(one).finish();
    checkTexts(run, requests);
    // A state is kept where a chunk ends; 128 is within a prompt that went from page to page in chunks of 16.
    assertEquals(requests.map(({ id }) => cachedTokens(run, id)), [0, 192, 128, 192, 0]);
    assertEquals(backend.forwards.filter(([row]) => row?.offset === 192).length >= 2, true);
  });

  Deno.test(`with ${what}, the next turn of a chat begins with the pages of the last one, its answer included`, () => {
    const { run } = withCache({ isRecurrent });
    const first = request("first", { promptIds: prompt(100), maxTokens: 150 });
    run.submit(first).finish();
    const second = request("second", { promptIds: [...prompt(100), ...run.tokens("first"), 1, 2, 3] });
    run.submit(second).finish();
    checkTexts(run, [first, second]);
    assertEquals(cachedTokens(run, "second"), 192);
  });

  Deno.test(`with ${what}, equal prompts at the same time are computed once, and those behind wait for it`, () => {
    const { run } = withCache({ isRecurrent });
    const requests = Array.from(
      { length: 8 },
      (_, i) => request(`r${i}`, { promptIds: prompt(150), sampling: { temperature: 1, seed: BigInt(i) } }),
    );
    run.submit(...requests).finish();
    checkTexts(run, requests);
    assertEquals(requests.map(({ id }) => cachedTokens(run, id)), [0, ...Array<number>(7).fill(128)]);
    assertEquals(run.core.stats().promptTokens, 150 + 7 * 22);
    assertEquals(run.core.stats().prefix, {
      queries: 8,
      queryTokens: 8 * 150,
      hitTokens: 7 * 128,
      pages: 2,
      bytes: 2 * PAGE_BYTES,
      evictions: 0,
    });
  });
}

Deno.test("texts are those of rows alone, whatever is shared, evicted, cancelled or recurrent", () => {
  let numHits = 0;
  fc.assert(
    fc.property(
      fc.array(prefixPlans, { minLength: 1, maxLength: 9 }),
      fc.constantFrom(0, 1, 3, 7, 1000),
      fc.boolean(),
      (shapes, numPages, isRecurrent) => {
        const { run, backend } = withCache({ numPages, isRecurrent });
        const requests = plannedRequests(shapes);
        const step = submitPlanned(run, shapes, requests);
        while (run.core.hasWork) step();
        checkPlannedTexts(run, requests);
        const figures = run.core.prefixes.figures();
        numHits += Number((figures?.hitTokens ?? 0) > 0);
        assertEquals(backend.pages.size, figures?.pages ?? 0);
        run.core.prefixes.clear();
        assertEquals(backend.pages.size, 0);
      },
    ),
    { numRuns: 120 },
  );
  assert(numHits > 8, `${numHits} runs had hits`);
});

Deno.test("a budget is kept, and what many prompts begin with outlives what is behind it", () => {
  const { run, backend } = withCache({ numPages: 3 });
  for (let i = 0; i < 6; i++) {
    run.submit(request(`r${i}`, { promptIds: [...prompt(64), ...prompt(128, i + 2)] })).finish();
    assert(backend.pages.size <= 3, `${backend.pages.size} pages`);
  }
  assertEquals(cachedTokens(run, "r5"), 64);
  assert((run.core.stats().prefix?.evictions ?? 0) >= 8);
});

Deno.test("a row that was cancelled while it computed, or broke, leaves no pages and holds none", () => {
  const { run, backend } = withCache();
  run.submit(request("cancelled", { promptIds: prompt(300) }));
  for (let i = 0; i < 9; i++) run.step();
  run.core.cancel("cancelled");
  run.finish();
  run.submit(request("broken", { promptIds: [...prompt(150), BREAKING_TOKEN] })).finish();
  assertEquals([run.answers.get("broken")?.failure?.code, backend.pages.size], ["row_broken", 0]);
  const after = request("after", { promptIds: prompt(300) });
  run.submit(after).finish();
  checkTexts(run, [after]);
  assertEquals(cachedTokens(run, "after"), 0);
});

Deno.test("rows that wait for another one's prompt go on when it is cancelled", () => {
  const { run } = withCache();
  const followers = ["a", "b"].map((id) => request(id, { promptIds: prompt(200) }));
  run.submit(request("leader", { promptIds: prompt(200) }), ...followers);
  for (let i = 0; i < 3; i++) run.step();
  run.core.cancel("leader");
  run.finish();
  checkTexts(run, followers);
  assertEquals(followers.map(({ id }) => cachedTokens(run, id)), [0, 192]);
});

Deno.test("a short prompt does not wait for a long one that it has little in common with", () => {
  const backend = new FakeBackend();
  const run = CoreRun.with(backend, { prefixCacheBytes: 1e6, prefillChunk: 400 });
  run.submit(request("long", { promptIds: prompt(390) }), request("short", { promptIds: prompt(66) })).finish();
  assertEquals(backend.forwards[0]?.map(({ count }) => count), [334, 66]);
  const waited = withCache();
  waited.run.submit(request("first", { promptIds: prompt(66) }), request("second", { promptIds: prompt(66) })).finish();
  assertEquals(cachedTokens(waited.run, "second"), 64);
});

Deno.test("scored prompts, cachePrompt false and other salts take nothing and leave nothing to others", () => {
  const { run, backend } = withCache();
  run.submit(request("scored", { promptIds: prompt(100), promptLogprobs: 0 })).finish();
  run.submit(request("private", { promptIds: prompt(100), cachePrompt: false })).finish();
  assertEquals(backend.pages.size, 0);
  for (const [id, cacheSalt] of [["a", "x"], ["b", "y"], ["c", ""]] as const) {
    run.submit(request(id, { promptIds: prompt(100), cacheSalt })).finish();
    assertEquals(cachedTokens(run, id), 0, id);
  }
  run.submit(request("again", { promptIds: prompt(100), cacheSalt: "y" })).finish();
  assertEquals([cachedTokens(run, "again"), run.core.stats().prefix?.queries], [64, 4]);
});

Deno.test("without memory for a page rows go on; a page that cannot be loaded fails its row alone", () => {
  const noMemory = withCache({ faults: { savePage: () => "no memory" } });
  const requests = [request("a", { promptIds: prompt(100) }), request("b", { promptIds: prompt(100) })];
  noMemory.run.submit(...requests).finish();
  checkTexts(noMemory.run, requests);
  const broken = withCache({ faults: { loadPage: () => "a page is damaged" } });
  broken.run.submit(requests[0]!).finish();
  broken.run.submit(requests[1]!, request("beside", { promptIds: [4, 5] })).finish();
  assertEquals(broken.run.answers.get("b")?.failure?.message, "a page is damaged");
  checkTexts(broken.run, [requests[0]!, request("beside", { promptIds: [4, 5] })]);
});

Deno.test("a limit of the cache that is no whole number is refused", () => {
  const make = (): EngineCore => new EngineCore(new FakeBackend(), { ...LIMITS, prefixCacheBytes: -1 });
  let message = "";
  try {
    make();
  } catch (error) {
    message = (error as Error).message;
  }
  assertEquals(message, "prefixCacheBytes is -1, allowed are whole numbers from 0");
});
