/** The folder's size is bounded, and what goes is what nobody used. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { PageFolder } from "../../../src/engine/disk/page_folder.ts";
import { PageSpace } from "../../../src/engine/disk/page_space.ts";
import { digest, files, HEADER_BYTES, heldBytes, image, open, pathOf, withFolder } from "./pages.ts";

const MAX_BYTES = 40_000;

/** Sets when a page was used, in seconds before now. */
async function age(pages: PageFolder, key: string, seconds: number): Promise<void> {
  const used = new Date(Date.now() - 1000 * seconds);
  await Deno.utime(pathOf(pages, key), used, used);
}

Deno.test("whatever two writers write, of one model or two, all pages together keep within the size", async () => {
  let numGone = 0;
  const write = fc.record({ writer: fc.nat(1), key: fc.nat(60), numBytes: fc.integer({ min: 1, max: 2000 }) });
  await fc.assert(
    fc.asyncProperty(
      fc.array(write, { minLength: 40, maxLength: 80 }),
      fc.boolean(),
      (writes, isSameModel) =>
        withFolder(async (folder) => {
          const writers = [open(folder, MAX_BYTES), open(folder, MAX_BYTES, digest(isSameModel ? 1 : 2))];
          for (const { writer, key, numBytes } of writes) {
            await writers[writer]!.write(digest(key), image(numBytes));
            const held = await heldBytes(folder);
            assert(held <= MAX_BYTES, `${held} bytes are held`);
            assert(await writers[writer]!.read(digest(key)) !== null, "What was written last is gone");
          }
          numGone += Number(
            (await files(folder)).size < new Set(writes.map(({ writer, key }) => isSameModel ? key : 100 * writer + key)).size,
          );
        }),
    ),
    // Every run writes dozens of files: the first series that fails is as good as the shortest.
    { numRuns: 15, endOnFailure: true },
  );
  assert(numGone > 5, `pages had to go in ${numGone} runs`);
});

Deno.test("the pages that were not used for longest go, and those behind others before them", () =>
  withFolder(async (folder) => {
    const pages = open(folder, MAX_BYTES);
    const keys = Array.from({ length: 16 }, (_, i) => digest(i));
    for (const key of keys) await pages.write(key, image(2000));
    for (const [i, key] of keys.entries()) await age(pages, key, 1000 - i);
    // The oldest pages are a prefix that is used again: from the first on.
    await pages.touch(keys.slice(0, 4));
    await age(pages, digest(15), 0);
    const smaller = open(folder, 4 * (2000 + HEADER_BYTES) + 2000);
    await smaller.space.reserve(0);
    const left = (await Promise.all(keys.map(async (key, i) => await pages.read(key) === null ? -1 : i))).filter((i) => i >= 0);
    assertEquals(left, [0, 1, 2, 15]);
    assertEquals(smaller.space.heldBytes, 4 * (2000 + HEADER_BYTES));
  }));

Deno.test("nothing but pages and what is left of dead writers is ever removed", () =>
  withFolder(async (folder) => {
    const pages = open(folder, MAX_BYTES);
    for (let i = 0; i < 10; i++) await pages.write(digest(i), image(2000));
    const inside = `${folder}/${pages.model}`;
    const part = (seed: number): string => `${inside}/${digest(seed)}.${crypto.randomUUID()}.part`;
    const [stale, young] = [part(1), part(2)];
    const kept = [`${folder}/notes.txt`, `${inside}/thesis.page`, `${folder}/${digest(3)}.page`, `${inside}/${digest(5)}.page.txt`, young];
    for (const path of [...kept, stale]) await Deno.writeTextFile(path, "mine");
    const longAgo = new Date(Date.now() - 3_600_000);
    for (const path of [...kept.slice(0, -1), stale]) await Deno.utime(path, longAgo, longAgo);
    assertEquals(await open(folder, 1).space.reserve(0), true);
    assertEquals([...(await files(folder)).keys()].sort(), kept.sort());
  }));

Deno.test("a page that is too large, or for which the disk has no room to spare, is not written", () =>
  withFolder(async (folder) => {
    const pages = open(folder, 5000);
    await assertRejects(() => pages.write(digest(1), image(4500)), Error, "There is no room for 4660 bytes");
    let freeBytes = 2 ** 28 + 2000;
    const tight = new PageFolder(new PageSpace(folder, MAX_BYTES, () => Promise.resolve(freeBytes)), digest(1));
    await tight.write(digest(1), image(1000));
    freeBytes = 2 ** 28 - 1e6;
    await assertRejects(() => tight.write(digest(2), image(3000)), Error, "There is no room");
    await assertRejects(() => tight.space.probe(), Error, "There is no room");
    // Without all pages that are there it would not fit, either: they stay, and are read.
    assert(await tight.read(digest(1)) !== null);
    freeBytes = 2 ** 28 + 500;
    await tight.space.probe();
    await tight.write(digest(2), image(1400));
    assertEquals([await tight.read(digest(1)), (await files(folder)).size], [null, 1]);
    freeBytes = 1e12;
    assertEquals(await tight.write(digest(3), image(3000)), 3160);
  }));

Deno.test("of servers with different sizes on one folder the smallest counts, as soon as its server has counted", () =>
  withFolder(async (folder) => {
    const [large, small] = [open(folder, MAX_BYTES), open(folder, MAX_BYTES / 4)];
    for (let i = 0; i < 10; i++) await large.write(digest(i), image(2000));
    await small.space.count();
    assertEquals(await heldBytes(folder), small.space.heldBytes);
    assert(small.space.heldBytes <= MAX_BYTES / 4 && small.space.heldBytes > 0, `${small.space.heldBytes} bytes are held`);
    assert(await small.read(digest(9)) !== null);
  }));

Deno.test("the size that is told is that of the folder, once it was counted", () =>
  withFolder(async (folder) => {
    const pages = open(folder, MAX_BYTES);
    for (let i = 0; i < 5; i++) await pages.write(digest(i), image(1000));
    assertEquals(pages.space.heldBytes, await heldBytes(folder));
    assertEquals(await new PageSpace(`${folder}/none`, 5).reserve(0), true);
  }));
