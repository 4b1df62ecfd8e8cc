/** The prefix cache over the real library: equal bits with a hit and without, and memory that comes back. */
import { assert, assertEquals } from "@std/assert";
import { type CoreLimits, EngineCore } from "../../src/engine/engine_core.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { findLibrary } from "../../src/native/library.ts";
import { NativeError } from "../../src/native/native_error.ts";
import { NativeLibrary } from "../../src/native/library.ts";
import { NativeModel } from "../../src/native/native_model.ts";
import { makeTinyModel } from "../native/tiny_model.ts";
import { modelTest } from "../test_model.ts";
import { CoreRun, request } from "./requests.ts";

const CACHE_BYTES = 64 * 2 ** 20;
const REAL_LIMITS: CoreLimits = { maxBatch: 8, maxContext: 1024, maxQueue: 64, prefillChunk: 256, prefixCacheBytes: CACHE_BYTES };

function prompt(length: number, step = 37): number[] {
  return Array.from({ length }, (_, i) => 100 + (i * i * step) % 40_000);
}

/** All that a request was told, but how long it took and where its prompt came from. Equal numbers are equal bits. */
function told(run: CoreRun, id: string): unknown {
  return run.answers.get(id)?.updates.map(({ timings: _, cachedTokens: __, ...update }) => update);
}

function cached(run: CoreRun, id: string): number {
  return run.answers.get(id)?.updates[0]?.cachedTokens ?? 0;
}

function sampled(id: string, promptIds: readonly number[], seed: bigint): GenerateRequest {
  return request(id, { promptIds, maxTokens: 12, sampling: { temperature: 0.8, seed, numTopLogprobs: 3 } });
}

modelTest(
  "in batch-invariant mode texts and logprobs are the same bits with hits and without: shared prefixes, and turns of a chat",
  (path) => {
    const backend = NativeBackend.load(findLibrary(), loadModel(path).spec, true);
    try {
      const make = (prefixCacheBytes: number): CoreRun => new CoreRun(new EngineCore(backend, { ...REAL_LIMITS, prefixCacheBytes }));
      const [on, off] = [make(CACHE_BYTES), make(0)];
      const shared = Array.from({ length: 8 }, (_, i) => sampled(`shared${i}`, [...prompt(150), ...prompt(3 + i, 11 + i)], BigInt(i)));
      on.submit(...shared).finish();
      off.submit(...shared).finish();
      for (const { id } of shared) assertEquals(told(on, id), told(off, id), id);
      assertEquals(shared.map(({ id }) => cached(on, id)), [0, ...Array<number>(7).fill(128)]);

      const chat = [...prompt(150), ...prompt(3, 11)];
      for (const turn of ["second", "third"]) {
        const answer = on.tokens(turn === "second" ? "shared0" : "second");
        chat.push(...answer, ...prompt(40, turn.length));
        const next = sampled(turn, chat, 5n);
        on.submit(next).finish();
        off.submit(next).finish();
        assertEquals(told(on, turn), told(off, turn), turn);
      }
      assertEquals([cached(on, "second"), cached(on, "third"), cached(off, "third")], [128, 192, 0]);
      on.core.prefixes.checkIntegrity();
    } finally {
      backend.close();
    }
  },
);

modelTest("a small budget is kept, and all memory comes back", (path) => {
  const backend = NativeBackend.load(findLibrary(), loadModel(path).spec);
  try {
    const pageBytes = 64 * backend.facts.kvBytesPerToken;
    const run = new CoreRun(new EngineCore(backend, { ...REAL_LIMITS, prefixCacheBytes: 3 * pageBytes }));
    const before = backend.memory().mlxActiveBytes;
    for (let i = 0; i < 3; i++) {
      run.submit(sampled(`r${i}`, [...prompt(64), ...prompt(80, 3 + i)], 1n)).finish();
      const bytes = run.core.stats().prefix?.bytes ?? 0;
      assert(bytes > 0 && bytes <= 3 * pageBytes, `${bytes} bytes are held`);
    }
    assertEquals(cached(run, "r2"), 64);
    run.core.releaseMemory();
    assert(backend.memory().mlxActiveBytes >= before + 2 * pageBytes);
    run.core.prefixes.clear();
    assert(backend.memory().mlxActiveBytes - before < pageBytes / 2, `${backend.memory().mlxActiveBytes - before} bytes are left`);
  } finally {
    backend.close();
  }
});

Deno.test("pages are closed with their cache, and a page that does not fit is refused by name", () => {
  const tiny = makeTinyModel();
  const library = NativeLibrary.open(findLibrary());
  const model = NativeModel.load(library, tiny.spec);
  try {
    const cache = model.newCache();
    cache.resize(2, 16);
    const page = cache.savePage(1, 4, 8, true);
    assertEquals(page.bytes, 8 * model.info.kvBytesPerToken);
    cache.loadPage(page, 0, 4);
    for (
      const [act, text] of [
        [() => cache.savePage(2, 0, 8, true), "slot is 2, the cache has 2"],
        [() => cache.loadPage(page, 0, 9), "8 tokens from 9 on"],
      ] as const
    ) {
      try {
        act();
        assert(false, `Nobody said that ${text}`);
      } catch (error) {
        assert(error instanceof NativeError && error.message.includes(text), String(error));
      }
    }
    cache.close();
    let message = "";
    try {
      page.unsafeHandle;
    } catch (error) {
      message = (error as Error).message;
    }
    assertEquals(message, "Cannot use a page: it is closed");
  } finally {
    model.close();
    library.close();
    tiny.remove();
  }
});
