/** The disk over the real library and its own worker: damaged pages, and states of recurrent models. */
import { assert, assertEquals } from "@std/assert";
import { openPrefixDisk } from "../../src/engine/disk/disk_client.ts";
import type { PageDisk } from "../../src/engine/disk/page_disk.ts";
import { EngineCore } from "../../src/engine/engine_core.ts";
import { NativeBackend } from "../../src/engine/native_backend.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { findLibrary } from "../../src/native/library.ts";
import type { ModelSpec } from "../../src/native/model_spec.ts";
import { modelTest } from "../test_model.ts";
import { files, HEADER_BYTES, withFolder } from "./disk/pages.ts";
import { CoreRun, request } from "./requests.ts";

const LIMITS = { maxBatch: 4, maxContext: 1024, maxQueue: 64, prefillChunk: 256, prefixCacheBytes: 2 ** 28 };

function prompt(length: number): number[] {
  return Array.from({ length }, (_, i) => 100 + (i * i * 37) % 40_000);
}

interface Served {
  /** Equal numbers are equal bits. */
  readonly told: unknown;
  readonly numCached: number;
  readonly numDamaged: number;
}

function open(model: ModelSpec, folder: string, build: Readonly<Record<string, string>> = {}): PageDisk {
  const disk = openPrefixDisk({
    ...LIMITS,
    libraryPath: findLibrary(),
    model,
    isBatchInvariant: true,
    prefixDisk: { folder, maxBytes: 1e9 },
  }, build);
  if (disk === null) throw new TypeError("No disk, though a folder is named");
  return disk;
}

/** One request on an engine of its own that begins with an empty memory. */
async function serveOne(backend: NativeBackend, model: ModelSpec, folder: string): Promise<Served> {
  const disk = open(model, folder, backend.facts.build);
  const run = new CoreRun(new EngineCore(backend, LIMITS, undefined, undefined, disk));
  disk.onAnswer = (): void => run.core.prefixes.writeBehind();
  run.submit(request("r", { promptIds: prompt(200), maxTokens: 8, sampling: { temperature: 0.8, seed: 3n, numTopLogprobs: 2 } }));
  while (run.core.hasWork || !run.core.prefixes.isSettled) {
    if (run.core.hasWork) run.step();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  const { numDamaged } = disk.figures();
  disk.close();
  run.core.prefixes.clear();
  run.core.releaseMemory();
  const updates = run.answers.get("r")?.updates ?? [];
  const told = updates.map(({ timings: _, cachedTokens: __, ...update }) => update);
  return { told, numCached: updates[0]?.cachedTokens ?? 0, numDamaged };
}

modelTest(
  "whichever byte of a page is changed or cut off, the bits of the answer are the same, and the page is computed and written anew",
  (path) =>
    withFolder(async (folder) => {
      const { spec } = loadModel(path);
      const backend = NativeBackend.load(findLibrary(), spec, true);
      try {
        const before = await serveOne(backend, spec, folder);
        const after = await serveOne(backend, spec, folder);
        assertEquals([before.numCached, after.numCached, after.told], [0, 192, before.told]);
        const paths = [...(await files(folder)).keys()];
        assertEquals(paths.length, 3);
        const { size } = await Deno.stat(paths[0]!);
        // Every byte is damaged in page_folder_test.ts; here, what comes of it.
        const places = [0, 8, 16, 32, 64, 128, HEADER_BYTES, Math.floor(size / 3), size - 1];
        for (const [i, place] of places.entries()) {
          const path = paths[i % 3]!;
          const bytes = await Deno.readFile(path);
          bytes[place]! ^= 1 << (i % 8);
          await Deno.writeFile(path, i % 4 === 3 ? bytes.slice(0, place) : bytes);
          const { told, numCached, numDamaged } = await serveOne(backend, spec, folder);
          assertEquals([told, numDamaged], [before.told, 1], `byte ${place} of ${path}`);
          assert(numCached < 192 && numCached % 64 === 0, `${numCached} tokens were taken`);
          assertEquals((await serveOne(backend, spec, folder)).numCached, 192);
        }
      } finally {
        backend.close();
      }
    }),
);

modelTest("pages that other kernels have computed are not taken", (path) =>
  withFolder(async (folder) => {
    const { spec } = loadModel(path);
    const names = ["ROWLOCK_CPU_KERNELS", "OPENBLAS_CORETYPE"];
    const before = names.map((name) => Deno.env.get(name));
    const set = (name: string, value: string | undefined): void => value === undefined ? Deno.env.delete(name) : Deno.env.set(name, value);
    const serve = async (): Promise<number> => {
      const backend = NativeBackend.load(findLibrary(), spec, true);
      try {
        return (await serveOne(backend, spec, folder)).numCached;
      } finally {
        backend.close();
      }
    };
    try {
      for (const name of names) set(name, undefined);
      const numCached = [await serve(), await serve()];
      for (const [name, value] of [["ROWLOCK_CPU_KERNELS", "mlx"], ["OPENBLAS_CORETYPE", "Haswell"]] as const) {
        set(name, value);
        numCached.push(await serve());
        set(name, undefined);
      }
      assertEquals([...numCached, await serve()], [0, 192, 0, 0, 192]);
    } finally {
      for (const [i, name] of names.entries()) set(name, before[i]);
    }
  }));
