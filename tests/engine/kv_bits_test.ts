/** `kv_bits` 8 over the real library and the default model: what it saves, what it changes, and what it does not. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { EngineCore } from "../../src/engine/engine_core.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { findLibrary } from "../../src/native/library.ts";
import type { ModelSpec } from "../../src/native/model_spec.ts";
import { makeTinyModel } from "../native/tiny_model.ts";
import { modelTest } from "../test_model.ts";
import { CoreRun, request } from "./requests.ts";

const withConfig = (spec: ModelSpec, config: Record<string, string>): ModelSpec => ({ ...spec, config: { ...spec.config, ...config } });

/** Logprobs of a prompt's tokens, and of the answer's. */
function probe(id: string, first: number): GenerateRequest {
  const promptIds = Array.from({ length: 40 }, (_, i) => first + (i * i * 37) % 40_000);
  return request(id, { promptIds, maxTokens: 12, promptLogprobs: 1, sampling: { temperature: 0, numTopLogprobs: 1 } });
}

function answers(backend: NativeBackend, prefillChunk: number, ...requests: GenerateRequest[]): Map<string, unknown[]> {
  backend.resize(0, 0);
  const run = new CoreRun(new EngineCore(backend, { maxBatch: 8, maxContext: 256, maxQueue: 8, prefillChunk })).submit(...requests)
    .finish();
  return new Map([...run.answers].map(([id, { updates }]) => [id, updates.map(({ timings: _, ...update }) => update)]));
}

function logprobsIn(value: unknown): number[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) => key === "logprob" && typeof item === "number" ? [item] : logprobsIn(item));
}

modelTest("a cache of 8 bits takes about a quarter of the memory, and logprobs stay close to those of float32", (path) => {
  const { spec } = loadModel(path);
  const full = NativeBackend.load(findLibrary(), spec);
  const small = NativeBackend.load(findLibrary(), withConfig(spec, { kv_bits: "8" }));
  try {
    assertEquals(small.facts.kvBytesPerToken / full.facts.kvBytesPerToken, (64 + 4) / (4 * 64));
    const [expected, found] = [full, small].map((backend) => logprobsIn(answers(backend, 64, probe("one", 100)).get("one")));
    assert(expected!.length >= 40, `${expected!.length} logprobs were told`);
    const differences = expected!.slice(0, 40).map((logprob, i) => Math.abs(logprob - found![i]!));
    assert(Math.max(...differences) < 0.3, `logprobs differ by ${Math.max(...differences)}`);
    assert(Math.max(...differences) > 0, "8 bits changed nothing: they are not in use");
  } finally {
    full.close();
    small.close();
  }
});

modelTest("with 8 bits an answer depends neither on company nor on how its prompt is cut", (path) => {
  const backend = NativeBackend.load(findLibrary(), withConfig(loadModel(path).spec, { kv_bits: "8" }));
  try {
    const alone = answers(backend, 256, probe("one", 100)).get("one");
    assertEquals(answers(backend, 7, probe("one", 100)).get("one"), alone);
    assertEquals(answers(backend, 64, probe("a", 3000), probe("one", 100), probe("b", 9000)).get("one"), alone);
  } finally {
    backend.close();
  }
});

Deno.test("8 bits are refused by name where the cache cannot have them, and so are other numbers of bits", () => {
  const tiny = makeTinyModel();
  try {
    for (
      const [config, text] of [[{ kv_bits: "8", dtype: "float16" }, "with float32 activations"], [
        { kv_bits: "4" },
        "kv_bits is 4, expected 0 or 8",
      ]] as const
    ) {
      assertThrows(() => NativeBackend.load(findLibrary(), withConfig(tiny.spec, config)), Error, text);
    }
  } finally {
    tiny.remove();
  }
});
