/** What `isBatchInvariant` promises, over the real library and the default model: bits that depend on the request alone. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { join } from "node:path";
import { EngineClient } from "../../src/engine/client.ts";
import { EngineCore } from "../../src/engine/engine_core.ts";
import { EngineError } from "../../src/engine/engine.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { findLibrary, libraryFileName } from "../../src/native/library.ts";
import { NATIVE_ERROR_CODES } from "../../src/native/native_error.ts";
import { ABI_VERSION, SYMBOLS } from "../../src/native/symbols.ts";
import { makeTinyModel } from "../native/tiny_model.ts";
import { modelTest } from "../test_model.ts";
import { CoreRun, LIMITS, request } from "./requests.ts";

function prompt(length: number, step = 37): number[] {
  return Array.from({ length }, (_, i) => 100 + (i * i * step) % 40_000);
}

function probe(length: number, promptLogprobs = -1): GenerateRequest {
  return request("probe", {
    promptIds: prompt(length),
    maxTokens: 6,
    promptLogprobs,
    sampling: { temperature: 0.9, seed: 5n, numTopLogprobs: 4 },
  });
}

function neighbour(id: string, length: number, maxTokens: number): GenerateRequest {
  return request(id, { promptIds: prompt(length, 53), maxTokens, sampling: { temperature: 1, seed: 9n } });
}

/** Everything that the probe was told, times aside. Numbers are compared as they are: equal means equal bits. */
function told(run: CoreRun): unknown {
  return run.finish().answers.get("probe")?.updates.map(({ timings: _, ...update }) => update);
}

/** Ways for the same request to be computed: chunks, company, slots, sizes of the cache. Each gets a fresh cache. */
const CASES: Readonly<Record<string, (run: (prefillChunk: number) => CoreRun, one: GenerateRequest) => CoreRun>> = {
  "token by token": (run, one) => run(1).submit(one),
  "in chunks of 7": (run, one) => run(7).submit(one),
  "in chunks of 33": (run, one) => run(33).submit(one),
  "beside equally long prompts": (run, one) => {
    const length = one.promptIds.length;
    return run(512).submit(neighbour("a", length, 9), one, neighbour("b", length, 2), neighbour("c", length, 7));
  },
  "beside other lengths, with a chunk that is cut anywhere": (run, one) =>
    run(29).submit(neighbour("a", 11, 9), neighbour("b", 23, 3), one, neighbour("c", 40, 2)),
  "joining rows that decode": (run, one) => {
    const joined = run(512).submit(...Array.from({ length: 9 }, (_, i) => neighbour(`n${i}`, 1 + i, 12)));
    for (let steps = 0; steps < 3; steps++) joined.step();
    return joined.submit(one);
  },
  "moving to other slots as rows leave": (run, one) =>
    run(512).submit(neighbour("a", 3, 1), neighbour("b", 4, 2), neighbour("c", 5, 3), one, neighbour("d", 20, 3)),
  "in a cache that grows and is resized for others": (run, one) => {
    const resized = run(512).submit(one);
    resized.step();
    return resized.submit(neighbour("a", 100, 3), ...Array.from({ length: 6 }, (_, i) => neighbour(`n${i}`, 2, 2)));
  },
  "in a slot that another row has left": (run, one) => run(512).submit(neighbour("a", 60, 2)).finish().submit(one),
};

function differing(backend: NativeBackend, one: GenerateRequest): string[] {
  const run = (prefillChunk: number): CoreRun => {
    backend.resize(0, 0);
    return new CoreRun(new EngineCore(backend, { maxBatch: 16, maxContext: 512, maxQueue: 64, prefillChunk }));
  };
  const alone = JSON.stringify(told(run(512).submit(one)));
  return Object.entries(CASES).filter(([_, compute]) => JSON.stringify(told(compute(run, one))) !== alone).map(([name]) => name);
}

modelTest("in batch-invariant mode neither chunks, company, slots nor sizes of the cache change a bit", (path) => {
  const backend = NativeBackend.load(findLibrary(), loadModel(path).spec, true);
  try {
    for (const [length, promptLogprobs] of [[1, -1], [17, 2], [50, -1]] as const) {
      assertEquals([length, differing(backend, probe(length, promptLogprobs))], [length, []]);
    }
  } finally {
    backend.close();
  }
});

modelTest("with MLX's kernels and without the mode the same comparison finds differing bits, so it can fail", (path) => {
  Deno.env.set("ROWLOCK_CPU_KERNELS", "mlx");
  const backend = NativeBackend.load(findLibrary(), loadModel(path).spec);
  try {
    assert(differing(backend, probe(50)).length > 0, "Nothing differed: the comparison proves nothing");
  } finally {
    backend.close();
    Deno.env.delete("ROWLOCK_CPU_KERNELS");
  }
});

modelTest("a model of MLX's kernels keeps the mode too", (path) => {
  Deno.env.set("ROWLOCK_CPU_KERNELS", "mlx");
  const backend = NativeBackend.load(findLibrary(), loadModel(path).spec, true);
  try {
    assertEquals(differing(backend, probe(17)), []);
  } finally {
    backend.close();
    Deno.env.delete("ROWLOCK_CPU_KERNELS");
  }
});

Deno.test("a model that computes in half precision is refused in batch-invariant mode and serves without it", () => {
  for (const dtype of ["float16", "bfloat16"]) {
    const tiny = makeTinyModel();
    const spec = { ...tiny.spec, config: { ...tiny.spec.config, dtype } };
    try {
      assertThrows(
        () => NativeBackend.load(findLibrary(), spec, true),
        Error,
        `need a model that computes in float32, this one computes in ${dtype}`,
      );
      NativeBackend.load(findLibrary(), spec).close();
    } finally {
      tiny.remove();
    }
  }
});

/** A library that only says no, as the real one does on a GPU. */
async function makeRefusingLibrary(folder: string, reason: string): Promise<string> {
  const answers: Record<string, string> = {
    rl_abi_version: `int rl_abi_version(void) { return ${ABI_VERSION}; }`,
    rl_batch_invariant: `int rl_batch_invariant(int is_on) { return is_on ? ${NATIVE_ERROR_CODES.argument} : 0; }`,
    rl_last_error: `int rl_last_error(char* text, int capacity) { return snprintf(text, capacity, "%s", ${JSON.stringify(reason)}); }`,
  };
  const functions = Object.keys(SYMBOLS).map((name) => answers[name] ?? `int ${name}(void) { return 0; }`);
  const [source, library] = [join(folder, "refusing.c"), join(folder, libraryFileName())];
  await Deno.writeTextFile(source, ["#include <stdio.h>", ...functions].join("\n"));
  const { success, stderr } = await new Deno.Command("cc", { args: ["-shared", "-fPIC", "-o", library, source] }).output();
  assert(success, new TextDecoder().decode(stderr));
  return library;
}

Deno.test("where the library refuses the mode, the engine does not start and says the library's reason", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const reason = "not on this device";
    const libraryPath = await makeRefusingLibrary(folder, reason);
    const options = { ...LIMITS, libraryPath, model: { config: {}, tensors: [] }, isBatchInvariant: true };
    await assertRejects(() => EngineClient.start(options), EngineError, reason);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
