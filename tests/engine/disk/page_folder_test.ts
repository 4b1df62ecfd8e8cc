/** A page on the disk is either what was written or nothing. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { digest, files, HEADER_BYTES, image, open, pathOf, spelled, withFolder } from "./pages.ts";

const KEY = digest(7);

Deno.test("a page comes back as it was written, to its own model and key alone", () =>
  withFolder(async (folder) => {
    const pages = open(folder);
    const parts = [{}, { hasState: false }, { hasHistory: true, numModelBytes: 30 }, { numTokens: 16 }] as const;
    for (const [i, one] of parts.entries()) {
      assertEquals(await pages.write(digest(i), image(50, i, one)), HEADER_BYTES + 50);
      assertEquals(spelled((await pages.read(digest(i)))!), spelled(image(50, i, one)));
    }
    assertEquals(await pages.read(digest(99)), null);
    assertEquals(await open(folder, 1e9, digest(2)).read(digest(0)), null);
    assertEquals(spelled((await open(folder).read(digest(0)))!), spelled(image(50, 0)));
    assertEquals(pages.numDamaged, 0);
  }));

Deno.test("a page with any byte changed, cut anywhere or with more behind it is none, and is removed", () =>
  withFolder(async (folder) => {
    const pages = open(folder);
    const path = pathOf(pages, KEY);
    await pages.write(KEY, image(60, 5, { hasHistory: true, numModelBytes: 40 }));
    const good = await Deno.readFile(path);
    const check = async (bad: Uint8Array): Promise<void> => {
      await Deno.writeFile(path, bad);
      const before = pages.numDamaged;
      assertEquals(await pages.read(KEY), null);
      assertEquals([pages.numDamaged, (await files(folder)).size], [before + 1, 0]);
    };
    for (let at = 0; at < good.length; at++) {
      for (const change of [1, 0x80]) await check(good.map((byte, i) => i === at ? byte ^ change : byte));
      await check(good.slice(0, at));
    }
    await check(Uint8Array.from([...good, 0]));
    await check(new Uint8Array(good.length));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.nat(good.length - 1), fc.integer({ min: 1, max: 255 })), { minLength: 1 }), async (changes) => {
        const bad = good.slice();
        for (const [at, change] of changes) bad[at]! ^= change;
        if (bad.some((byte, i) => byte !== good[i])) await check(bad);
      }),
      { numRuns: 50 },
    );
    await Deno.writeFile(path, good);
    assert(await pages.read(KEY) !== null);
  }));

Deno.test("a page under the name of another one is none, whether of the same model or not", () =>
  withFolder(async (folder) => {
    const [pages, others] = [open(folder), open(folder, 1e9, digest(2))];
    await pages.write(KEY, image(60));
    await others.write(digest(8), image(60));
    await Deno.copyFile(pathOf(pages, KEY), pathOf(pages, digest(9)));
    await Deno.copyFile(pathOf(others, digest(8)), pathOf(pages, digest(8)));
    for (const key of [digest(9), digest(8)]) assertEquals(await pages.read(key), null);
    assertEquals(pages.numDamaged, 2);
    assert(await pages.read(KEY) !== null && await others.read(digest(8)) !== null);
  }));

Deno.test("a page is written once, unless the new one holds what that on the disk lacks", () =>
  withFolder(async (folder) => {
    const pages = open(folder);
    const write = async (parts: Parameters<typeof image>[2]): Promise<boolean> => (await pages.write(KEY, image(50, 1, parts)) ?? 0) > 0;
    assertEquals(await write({ hasState: false }), true);
    assertEquals(await write({ hasState: false }), false);
    assertEquals(await write({ hasState: true }), true);
    assertEquals(await write({ hasState: true, hasHistory: true }), true);
    assertEquals(await write({ hasState: true, hasHistory: false }), false);
    assertEquals((await pages.read(KEY))?.hasHistory, true);
    // What is there is damaged: it is written anew.
    await Deno.truncate(pathOf(pages, KEY), 100);
    assertEquals(await write({ hasState: true }), true);
    assertEquals((await pages.read(KEY))?.hasState, true);
  }));

Deno.test({
  name: "pages are for their user alone, and nothing is left of a page that could not be written",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withFolder(async (folder) => {
      const pages = open(folder);
      await pages.write(KEY, image(50));
      const mode = async (path: string): Promise<number> => ((await Deno.stat(path)).mode ?? 0) & 0o777;
      assertEquals([await mode(pathOf(pages, KEY)), await mode(`${folder}/${pages.model}`)], [0o600, 0o700]);
      // The page cannot take the place of a folder.
      await Deno.mkdir(`${pathOf(pages, digest(9))}/inside`, { recursive: true });
      assertEquals(await pages.write(digest(9), image(50)), null);
      assertEquals([...(await files(folder)).keys()], [pathOf(pages, KEY)]);
    }),
});

Deno.test("a page that the disk cannot read any more is removed; one that cannot be opened just now is not there this time", () =>
  withFolder(async (folder) => {
    const pages = open(folder);
    await pages.write(KEY, image(50));
    const openFile = Deno.open;
    const found: unknown[] = [];
    try {
      for (const code of ["EMFILE", "EIO"]) {
        Deno.open = () => Promise.reject(Object.assign(new Error(code), { code }));
        found.push([await pages.read(KEY), (await files(folder)).size]);
      }
    } finally {
      Deno.open = openFile;
    }
    assertEquals(found, [[null, 1], [null, 0]]);
  }));
