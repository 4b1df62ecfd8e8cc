/** What the disk does for rows, over the fake backend: its texts are hashes of what the slots really hold. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import type { PageImage } from "../../src/engine/backend.ts";
import type { GenerateRequest } from "../../src/engine/messages.ts";
import { STALL_MS } from "../../src/engine/prefix_disk.ts";
import { DiskRun } from "./disk_run.ts";
import { cachedTokens, checkPlannedTexts, checkTexts, plannedRequests, prefixPlans, prompt, submitPlanned } from "./prefix_plans.ts";
import { request } from "./requests.ts";

for (const [what, isRecurrent] of [["keys and values", false], ["recurrent states", true]] as const) {
  Deno.test(`with ${what}, a new engine takes from the disk what one before it has left, and computes only the rest`, () => {
    const pages = new Map<string, PageImage>();
    const first = request("first", { promptIds: prompt(200), maxTokens: 80 });
    const before = DiskRun.start(pages, { isRecurrent }).serve(first);
    const requests = [
      request("same", { promptIds: prompt(200), maxTokens: 80 }),
      request("next", { promptIds: [...prompt(200), ...before.tokens("first"), 1, 2, 3] }),
      request("other", { promptIds: [9, ...prompt(200)] }),
    ];
    const after = DiskRun.start(pages, { isRecurrent });
    for (const one of requests) after.serve(one);
    checkTexts(after, requests);
    assertEquals(requests.map(({ id }) => cachedTokens(after, id)), [192, 256, 0]);
    const disk = after.core.stats().prefix?.disk;
    assertEquals([disk?.hitTokens, disk?.numDropped], [192, 0]);
    // What came from there is not written again.
    assertEquals(after.disk.written.filter((key) => before.disk.written.slice(0, 3).includes(key)), []);
    assertEquals(after.backend.forwards.filter(([row]) => row?.offset === 0).length, 1);
  });
}

Deno.test("texts are those of rows alone, whatever the disk holds, loses, mixes up in size or is late with, through any restarts", () => {
  let numHits = 0;
  const delays = fc.record({ reads: fc.nat(3), writes: fc.nat(2), ms: fc.constantFrom(0, 1, 90) }, { noNullPrototype: true });
  fc.assert(
    fc.property(
      fc.array(fc.array(prefixPlans, { minLength: 1, maxLength: 5 }), { minLength: 2, maxLength: 3 }),
      fc.array(delays, { minLength: 1, maxLength: 30 }),
      fc.constantFrom(1, 3, 7, 1000),
      fc.boolean(),
      fc.array(fc.nat(30), { maxLength: 3 }),
      (lives, pace, numPages, isRecurrent, losses) => {
        const pages = new Map<string, PageImage>();
        for (const shapes of lives) {
          const run = DiskRun.start(pages, { numPages, isRecurrent });
          const requests = plannedRequests(shapes);
          const step = submitPlanned(run, shapes, requests, (numSteps) => {
            const { reads, writes, ms } = pace[numSteps % pace.length]!;
            run.nowMs += ms;
            run.disk.answerReads(reads);
            run.disk.finishWrites(writes);
          });
          // A disk that never answers is given up in time.
          while (run.core.hasWork) {
            step();
            run.nowMs += 10;
          }
          checkPlannedTexts(run, requests);
          run.settle();
          numHits += Number((run.core.stats().prefix?.disk?.hitTokens ?? 0) > 0);
          assertEquals(run.backend.pages.size, run.core.prefixes.figures()?.pages);
          const keys = [...pages.keys()];
          for (const [i, loss] of losses.entries()) {
            const key = keys[loss];
            const page = key === undefined ? undefined : pages.get(key);
            if (page === undefined) continue;
            if (i % 2 === 0) pages.delete(key!);
            else pages.set(key!, { ...page, numTokens: 32, numModelBytes: 128, bytes: page.bytes.slice(0, 128) });
          }
        }
      },
    ),
    { numRuns: 100 },
  );
  assert(numHits > 20, `${numHits} engines had hits`);
});

Deno.test("rows of one salt find nothing of another one's, and those that want no cache ask for nothing", () => {
  const pages = new Map<string, PageImage>();
  DiskRun.start(pages).serve(request("a", { promptIds: prompt(150), cacheSalt: "x" }));
  const run = DiskRun.start(pages);
  run.serve(request("other", { promptIds: prompt(150), cacheSalt: "y" })).serve(request("none", { promptIds: prompt(150) }));
  assertEquals(["other", "none"].map((id) => cachedTokens(run, id)), [0, 0]);
  const numAsked = run.disk.asked.length;
  run.serve(request("private", { promptIds: prompt(190, 5), cachePrompt: false }), request("short", { promptIds: prompt(64, 9) }));
  assertEquals(run.disk.asked.length, numAsked);
  run.serve(request("same", { promptIds: prompt(150), cacheSalt: "x" }));
  assertEquals(cachedTokens(run, "same"), 128);
});

Deno.test("while one row waits for the disk, others go on at every step; alone, it makes the engine wait", () => {
  const pages = new Map<string, PageImage>();
  DiskRun.start(pages).serve(request("before", { promptIds: prompt(200) }));
  const run = DiskRun.start(pages);
  run.submit(request("beside", { promptIds: [4, 5], maxTokens: 20 }));
  run.step();
  run.submit(request("held", { promptIds: prompt(200) }));
  for (let i = 0; i < 10; i++) {
    run.step();
    assertEquals([run.core.stats().stepRows, run.core.isWaitingForDisk, run.tokens("held").length], [1, false, 0]);
  }
  assertEquals(run.tokens("beside").length, 11);
  while (run.tokens("beside").length < 20) run.step();
  run.step();
  assertEquals([run.core.stats().stepRows, run.core.isWaitingForDisk], [0, true]);
  run.disk.answerReads(1);
  run.step();
  assertEquals(run.core.isWaitingForDisk, false);
  run.serve();
  assertEquals(cachedTokens(run, "held"), 192);
  checkTexts(run, [request("held", { promptIds: prompt(200) }), request("beside", { promptIds: [4, 5], maxTokens: 20 })]);
});

Deno.test("a disk that says nothing is not waited for: rows compute what they have not got, and later ones do not ask", () => {
  const pages = new Map<string, PageImage>();
  DiskRun.start(pages).serve(request("before", { promptIds: prompt(300) }));
  const run = DiskRun.start(pages);
  const requests = ["a", "b"].map((id, i) => request(id, { promptIds: [...prompt(300), i] }));
  run.submit(requests[0]!).step();
  run.disk.answerReads(1);
  run.nowMs += STALL_MS;
  run.step();
  assertEquals([run.core.stats().stepRows, cachedTokens(run, "a")], [0, 0]);
  run.nowMs += STALL_MS + 1;
  run.step();
  assertEquals([run.core.stats().stepRows, run.backend.forwards[0]?.[0]?.offset], [1, 64]);
  const numAsked = run.disk.asked.length;
  run.submit(request("other", { promptIds: prompt(300, 8) })).step();
  assertEquals(run.disk.asked.length, numAsked);
  run.finish();
  run.submit(requests[1]!).finish();
  checkTexts(run, requests);
  assertEquals(["a", "b"].map((id) => cachedTokens(run, id)), [64, 256]);
  // What comes too late is no harm.
  run.disk.answerReads();
  run.serve(request("c", { promptIds: prompt(310) }));
  checkTexts(run, [request("c", { promptIds: prompt(310) })]);
});

Deno.test("a disk that is being opened may take longer, but not for ever", () => {
  const pages = new Map<string, PageImage>();
  DiskRun.start(pages).serve(request("before", { promptIds: prompt(200) }));
  for (const [ms, numCached] of [[4000, 192], [6000, 0]] as const) {
    const run = DiskRun.start(pages);
    run.disk.isOpen = false;
    run.submit(request("after", { promptIds: prompt(200) })).step();
    for (let waitedMs = 0; waitedMs < ms; waitedMs += STALL_MS) {
      run.nowMs += STALL_MS;
      run.step();
    }
    assertEquals(run.core.isWaitingForDisk, numCached > 0);
    run.disk.isOpen = numCached > 0;
    run.serve();
    assertEquals(cachedTokens(run, "after"), numCached);
    checkTexts(run, [request("after", { promptIds: prompt(200) })]);
  }
});

Deno.test("pages are written in the order of their prefix, no more at a time than the disk takes; what is evicted before its turn is counted", () => {
  const run = DiskRun.start(new Map(), { numPages: 4 });
  const serveUnwritten = (one: GenerateRequest): void => {
    run.submit(one);
    for (let steps = 0; run.core.hasWork && steps < 1000; steps++) {
      run.step();
      run.disk.answerReads();
    }
  };
  serveUnwritten(request("a", { promptIds: prompt(250), maxTokens: 1 }));
  assertEquals([run.disk.written.length, run.disk.numWriting, run.core.prefixes.isSettled], [2, 2, false]);
  serveUnwritten(request("b", { promptIds: prompt(250, 5), maxTokens: 1 }));
  assertEquals(run.core.stats().prefix?.disk?.numDropped, 1);
  run.settle();
  assertEquals([run.disk.pages.size, run.core.prefixes.isSettled], [5, true]);
  const again = DiskRun.start(run.disk.pages);
  again.serve(request("a", { promptIds: prompt(250), maxTokens: 1 }), request("b", { promptIds: prompt(250, 5), maxTokens: 1 }));
  assertEquals(["a", "b"].map((id) => cachedTokens(again, id)), [128, 192]);
  // Each row tells which pages it used, from the first on.
  assertEquals(again.disk.touched.map((keys) => keys.length).sort(), [3, 3]);
  assertEquals(again.disk.touched.some((keys) => keys.slice(0, 2).join() === run.disk.written.slice(0, 2).join()), true);
});

Deno.test("a page that does not fit is removed from the disk, and what comes before it is used", () => {
  const pages = new Map<string, PageImage>();
  const before = DiskRun.start(pages).serve(request("before", { promptIds: prompt(200) }));
  const [, second = ""] = before.disk.written;
  for (const wrong of [{ numModelBytes: 12 }, { numTokens: 32, numModelBytes: 128, bytes: new Uint8Array(128) }]) {
    const run = DiskRun.start(new Map([...pages].map(([key, image]) => [key, key === second ? { ...image, ...wrong } : image])));
    run.serve(request("after", { promptIds: prompt(200) }));
    assertEquals([run.disk.removed, cachedTokens(run, "after")], [[second], 64]);
    checkTexts(run, [request("after", { promptIds: prompt(200) })]);
  }
});

Deno.test("rows behind one that reads the same prefix wait for it and ask for nothing themselves", () => {
  const pages = new Map<string, PageImage>();
  DiskRun.start(pages).serve(request("before", { promptIds: prompt(200) }));
  const run = DiskRun.start(pages);
  const requests = ["a", "b", "c"].map((id) => request(id, { promptIds: prompt(200) }));
  run.serve(...requests);
  checkTexts(run, requests);
  assertEquals([run.disk.asked.length, ...requests.map(({ id }) => cachedTokens(run, id))], [3, 192, 192, 192]);
});
