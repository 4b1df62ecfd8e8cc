/** What the disk takes of memory for rows that read from it. */
import { assert, assertEquals } from "@std/assert";
import type { PageImage } from "../../src/engine/backend.ts";
import { diskMemoryBytes } from "../../src/engine/prefix_disk.ts";
import { DiskRun } from "./disk_run.ts";
import { cachedTokens, checkTexts, prompt } from "./prefix_plans.ts";
import { request } from "./requests.ts";

Deno.test("pages are asked for within a budget of memory, whoever asks, and rows that leave give it back", () => {
  const pages = new Map<string, PageImage>();
  DiskRun.start(pages).serve(...[1, 2, 3].map((seed) => request(`before${seed}`, { promptIds: prompt(390, seed), maxTokens: 1 })));
  // A page of 4 MiB: four at a time.
  const run = DiskRun.start(pages, { kvBytesPerToken: 2 ** 16 });
  run.submit(...[1, 2, 3].map((seed) => request(`r${seed}`, { promptIds: prompt(390, seed), maxTokens: 1 })));
  run.step();
  assertEquals([run.disk.numReading, run.disk.asked.length], [4, 4]);
  run.core.cancel("r1");
  run.serve();
  assertEquals([run.disk.mostAsked, cachedTokens(run, "r2"), cachedTokens(run, "r3")], [4, 384, 384]);
});

Deno.test("pages that have come and wait for one before them count as asked for, and rows that leave give them back", () => {
  for (const isLeaving of [false, true]) {
    const pages = new Map<string, PageImage>();
    const prompts = [1, 2].map((seed) => prompt(390, seed));
    DiskRun.start(pages).serve(...prompts.map((promptIds, i) => request(`before${i}`, { promptIds, maxTokens: 1 })));
    const run = DiskRun.start(pages, { kvBytesPerToken: 2 ** 16 });
    const requests = prompts.map((promptIds, i) => request(`r${i}`, { promptIds, maxTokens: 1 }));
    run.submit(...requests).step();
    run.disk.answerReads(3, 1);
    run.step();
    assertEquals([run.disk.numReading, run.disk.asked.length], [1, 4]);
    if (isLeaving) run.core.cancel("r0");
    run.step();
    assertEquals([run.disk.numReading, run.disk.asked.length], isLeaving ? [4, 7] : [1, 4]);
    run.serve();
    assertEquals(requests.map(({ id }) => cachedTokens(run, id)), isLeaving ? [0, 384] : [384, 384]);
    checkTexts(run, requests.slice(Number(isLeaving)));
  }
});

Deno.test("memory of images is given back as soon as their pages are in the cache, or of no use", () => {
  const pages = new Map<string, PageImage>();
  DiskRun.start(pages).serve(request("before", { promptIds: prompt(390), maxTokens: 1 }));
  for (const isUseful of [true, false]) {
    const run = DiskRun.start(isUseful ? pages : new Map([...pages].map(([key, page]) => [key, { ...page, numTokens: 63 }])));
    const images: PageImage[] = [];
    const read = run.disk.read.bind(run.disk);
    run.disk.read = (key, answer) =>
      read(key, (image) => {
        if (image !== null) images.push(image);
        answer(image);
      });
    run.serve(request("after", { promptIds: prompt(390), maxTokens: 1 }));
    assertEquals([cachedTokens(run, "after"), images.length], [isUseful ? 384 : 0, 6]);
    assert(images.every(({ bytes }) => bytes.buffer.detached), "Images are still held");
  }
});

Deno.test("the disk takes the memory of its worker, of two pages on their way there and of those that are asked for, one at least", () => {
  const MIB = 2 ** 20;
  assertEquals(diskMemoryBytes({ kvBytesPerToken: 2 ** 16 }), (32 + 2 * 4 + 16) * MIB);
  assertEquals(diskMemoryBytes({ kvBytesPerToken: 2 ** 16, kvBytesPerSlot: 28 * MIB }), (32 + 2 * 32 + 32) * MIB);
});
