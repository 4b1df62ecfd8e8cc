/** Shares of the chunk and bounded memory over the real library and the default model. */
import { assert, assertEquals } from "@std/assert";
import { type CoreLimits, EngineCore } from "../../src/engine/engine_core.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import { NgramDrafter } from "../../src/engine/ngram_drafter.ts";
import { Speculation } from "../../src/engine/speculation.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { findLibrary } from "../../src/native/library.ts";
import { modelTest } from "../test_model.ts";
import { CoreRun, request } from "./requests.ts";

const REAL_LIMITS: CoreLimits = { maxBatch: 8, maxContext: 1024, maxQueue: 64, prefillChunk: 64 };

function prompt(length: number, step = 37): number[] {
  return Array.from({ length }, (_, i) => 100 + (i * i * step) % 40_000);
}

function sampled(id: string, promptLength: number, maxTokens: number, seed: number): GenerateRequest {
  const sampling = { temperature: 0.8, seed: BigInt(seed), numTopLogprobs: 2, frequencyPenalty: 0.3 };
  return request(id, { promptIds: prompt(promptLength, 11 + seed), maxTokens, sampling });
}

/** All that a request was told, however its tokens came, but how long it took and where its prompt came from. Equal numbers are equal bits. */
function told(run: CoreRun, id: string): unknown {
  const updates = run.answers.get(id)?.updates ?? [];
  return [
    run.answers.get(id)?.failure,
    updates.flatMap(({ tokens }) => tokens),
    updates.flatMap(({ logprobs }) => logprobs),
    updates.at(-1)?.finishReason,
  ];
}

modelTest(
  "a long prompt shares its chunks with short ones: they are first, streams go on, and every text is that of the request alone",
  (path) => {
    const backend = NativeBackend.load(findLibrary(), loadModel(path).spec, true);
    try {
      const make = (): CoreRun => new CoreRun(new EngineCore(backend, REAL_LIMITS));
      const run = make();
      const stream = sampled("stream", 10, 40, 1);
      const long = sampled("long", 500, 4, 2);
      const short = [sampled("s0", 30, 5, 3), sampled("s1", 20, 5, 4), sampled("s2", 32, 5, 5)];
      run.submit(stream);
      run.step();
      run.submit(long, ...short);
      for (let steps = 1; run.tokens("long").length === 0; steps++) {
        run.step();
        assertEquals(run.tokens("stream").length, 1 + steps);
        // Half of the 64 is for the long one: the other half brings the shortest first, and two more in the next three steps.
        if (steps === 1) assertEquals(short.map(({ id }) => run.tokens(id).length), [0, 1, 0]);
        if (steps === 3) assert(short.every(({ id }) => run.tokens(id).length > 0));
        assert(steps < 12, "The long prompt is not done");
      }
      run.finish();
      for (const one of [stream, long, ...short]) {
        assertEquals(told(run, one.id), told(make().submit(one).finish(), one.id), one.id);
      }
    } finally {
      backend.close();
    }
  },
);

modelTest(
  "in a small budget rows give way and come back with the same bits, with drafts and prefix pages too, and no more is held than allowed",
  (path) => {
    const backend = NativeBackend.load(findLibrary(), loadModel(path).spec, true);
    try {
      const make = (limits: Partial<CoreLimits>): CoreRun => {
        backend.resize(0, 0);
        const speculation = new Speculation([new NgramDrafter(4)], { isAdaptive: false });
        return new CoreRun(new EngineCore(backend, { ...REAL_LIMITS, ...limits }, undefined, speculation));
      };
      const requests = [24, 61, 40, 90, 33].map((length, i) => sampled(`r${i}`, length, 80 + 10 * i, i));
      const free = make({}).submit(...requests).finish();
      // Room for two of these rows at their full length, with a step's temporaries.
      const memoryBytes = make({ maxContext: 448 }).core.leastBytes;
      const run = make({ memoryBytes, prefixCacheBytes: 1e9 });
      run.submit(...requests);
      let peakBytes = 0;
      while (run.core.hasWork) {
        run.step();
        peakBytes = Math.max(peakBytes, run.core.stats().kvBytes + (run.core.stats().prefix?.bytes ?? 0));
      }
      for (const { id } of requests) assertEquals(told(run, id), told(free, id), id);
      assert(run.core.stats().preemptions > 0, "Nobody gave way");
      const roomBytes = memoryBytes - backend.facts.weightBytes;
      assert(peakBytes <= roomBytes && peakBytes > roomBytes / 2, `${peakBytes} of ${roomBytes} bytes were held`);
      run.core.prefixes.clear();
    } finally {
      backend.close();
    }
  },
);
