/** Pages keep what drafters with weights know of their tokens, so that rows with a hit draft like all others. */
import { assert, assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { EngineCore } from "../../src/engine/engine_core.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { ModelDrafter } from "../../src/engine/model_drafter.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import { NgramDrafter } from "../../src/engine/ngram_drafter.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { loadDrafter } from "../../src/models/drafters.ts";
import { findLibrary } from "../../src/native/library.ts";
import { FakeBackend } from "./fake_backend.ts";
import { FAKE_VOCAB_SIZE } from "./fake_draw.ts";
import { FakeDisk, finishWithDisk } from "./fake_disk.ts";
import { FakeDrafterBackend } from "./fake_drafter_backend.ts";
import { contentOf } from "./oracle_drafter.ts";
import { CoreRun, LIMITS, request, solo, tokensOf } from "./requests.ts";

const CACHE_BYTES = 2 ** 26;

function prompt(length: number, seed = 1): number[] {
  return Array.from({ length }, (_, i) => (i * i * 7 + seed * i + 3) % 120);
}

function cachedTokens(run: CoreRun, id: string): number {
  return run.answers.get(id)?.updates[0]?.cachedTokens ?? 0;
}

function numAccepted(run: CoreRun, id: string): number {
  return run.answers.get(id)?.updates.reduce((sum, { round }) => sum + (round?.numAccepted ?? 0), 0) ?? 0;
}

for (const kind of ["mtp", "eagle3", "dflash"] as const) {
  for (const isRecurrent of [false, true]) {
    Deno.test(`${kind}, ${isRecurrent ? "recurrent" : "plain"}: rows with a hit draft as well as those without, also behind a row that ended at once`, () => {
      const backend = new FakeBackend();
      backend.isRecurrent = isRecurrent;
      const drafter = new FakeDrafterBackend(kind, backend, () => false);
      const speculation = new Speculation([new ModelDrafter(drafter, 3, FAKE_VOCAB_SIZE)], { isAdaptive: false });
      const run = new CoreRun(new EngineCore(backend, { ...LIMITS, prefixCacheBytes: CACHE_BYTES }, undefined, speculation));
      const requests = [
        request("once", { promptIds: prompt(150), maxTokens: 1 }),
        request("a", { promptIds: [...prompt(150), 1], maxTokens: 100 }),
        request("b", { promptIds: [...prompt(150), 2], maxTokens: 100 }),
      ];
      run.submit(requests[0]!).finish().submit(requests[1]!, requests[2]!).finish();
      const next = request("next", { promptIds: [...prompt(150), 1, ...run.tokens("a"), 7], maxTokens: 40 });
      run.submit(next).finish();
      assertEquals(drafter.faults, []);
      for (const one of [...requests, next]) assertEquals(run.tokens(one.id), tokensOf(solo(one)), one.id);
      assertEquals(["once", "a", "b"].map((id) => cachedTokens(run, id)), [0, 128, 128]);
      // With drafts a state is only kept where a round happens to end at a border.
      assert(cachedTokens(run, "next") >= 128);
      assert(
        numAccepted(run, "a") >= 40 && numAccepted(run, "next") >= 15,
        `${numAccepted(run, "a")}, ${numAccepted(run, "next")} accepted`,
      );
    });
  }
}

Deno.test("pages of a row that did not draft are for rows that do not draft, until one that drafts has computed them", () => {
  const backend = new FakeBackend();
  const drafter = new FakeDrafterBackend("mtp", backend, () => false);
  const speculation = new Speculation([new ModelDrafter(drafter, 3, FAKE_VOCAB_SIZE)], { isAdaptive: false });
  const run = new CoreRun(new EngineCore(backend, { ...LIMITS, prefixCacheBytes: CACHE_BYTES }, undefined, speculation));
  const one = (id: string, draftKind: "none" | "mtp"): GenerateRequest => request(id, { promptIds: prompt(100), draftKind, maxTokens: 20 });
  for (const [id, kind] of [["plain", "none"], ["again", "none"], ["drafts", "mtp"], ["more", "mtp"]] as const) {
    run.submit(one(id, kind)).finish();
  }
  assertEquals(["plain", "again", "drafts", "more"].map((id) => cachedTokens(run, id)), [0, 64, 0, 64]);
  assertEquals([drafter.faults, backend.pages.size], [[], 1]);
});

const CASES = [["qwen3_5-mtp", ".", 3], ["eagle3", "drafter", 3], ["dflash", "drafter", 5], ["dflash-qwen3_5", "drafter", 5]] as const;

for (const [name, folder, maxDrafts] of CASES) {
  Deno.test(`${name}: real rows with hits get the text and logprobs of plain decoding without a cache, and their drafts are as good`, () => {
    const path = (inner: string): string => fileURLToPath(new URL(`../fixtures/drafters/${name}/${inner}`, import.meta.url));
    const model = loadModel(path("."), { dtype: "float32" });
    const backend = NativeBackend.load(findLibrary(), model.spec, true, loadDrafter(path(folder), model));
    const requests = Array.from(
      { length: 4 },
      (_, i) =>
        request(`r${i}`, {
          promptIds: [...prompt(140), i],
          maxTokens: 24,
          sampling: { temperature: 0.5, seed: BigInt(i), numTopLogprobs: 1 },
        }),
    );
    try {
      const play = (speculation: Speculation, prefixCacheBytes: number, disk = new FakeDisk()): CoreRun => {
        const limits = { ...LIMITS, prefillChunk: 64, prefixCacheBytes };
        const run = new CoreRun(new EngineCore(backend, limits, undefined, speculation, disk)).submit(...requests);
        finishWithDisk(run, disk);
        run.core.prefixes.clear();
        run.core.releaseMemory();
        return run;
      };
      const drafters = (): Speculation =>
        new Speculation([new ModelDrafter(backend.drafter!, maxDrafts, model.vocabSize), new NgramDrafter(2)], { isAdaptive: false });
      const plain = play(new Speculation([], { isAdaptive: false }), 0);
      const without = play(drafters(), 0);
      const run = play(drafters(), CACHE_BYTES);
      for (const one of requests) assertEquals(contentOf(run, one), contentOf(plain, one), one.id);
      assertEquals(requests.map(({ id }) => cachedTokens(run, id)), [0, 128, 128, 128]);
      const sum = (of: CoreRun): number => requests.reduce((total, { id }) => total + numAccepted(of, id), 0);
      assert(sum(run) >= sum(without) - 8, `${sum(run)} drafts accepted, ${sum(without)} without a cache`);
      const pages = new FakeDisk().pages;
      play(drafters(), CACHE_BYTES, new FakeDisk(pages));
      const restarted = play(drafters(), CACHE_BYTES, new FakeDisk(pages));
      for (const one of requests) assertEquals(contentOf(restarted, one), contentOf(plain, one), `${one.id}, from the disk`);
      assertEquals(requests.map(({ id }) => cachedTokens(restarted, id)), [128, 128, 128, 128]);
      assert(sum(restarted) >= sum(without) - 8, `${sum(restarted)} drafts accepted, ${sum(without)} without a cache`);
    } finally {
      backend.close();
    }
  });
}
