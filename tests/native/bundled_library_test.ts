import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { type LibraryBundle, unpackLibrary } from "../../src/native/bundled_library.ts";
import { LibraryError, libraryFileName } from "../../src/native/library.ts";

const NAME = libraryFileName();

/** A bundle with a library of this text and a second file, and a cache folder that is not there yet. */
async function withBundle(text: string, body: (bundle: LibraryBundle, cache: string, root: string) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir();
  try {
    const folder = join(root, "program");
    await Deno.mkdir(folder);
    const files = [{ name: NAME, text }, { name: "kernels", text: "for a GPU" }];
    for (const file of files) await Deno.writeTextFile(join(folder, file.name), file.text);
    await body({ folder, files: files.map((file) => describe(file.name, file.text)) }, join(root, "cache"), root);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

function describe(name: string, text: string): LibraryBundle["files"][number] {
  return { name, bytes: text.length, sha256: createHash("sha256").update(text).digest("hex") };
}

function mode(path: string): number {
  return Deno.statSync(path).mode! & 0o777;
}

Deno.test("the library is unpacked with what lies beside it, for its user alone", async () => {
  await withBundle("a library", async (bundle, cache) => {
    const path = await unpackLibrary(bundle, cache);
    assertEquals(await Deno.readTextFile(path), "a library");
    assertEquals(await Deno.readTextFile(join(path, "..", "kernels")), "for a GPU");
    assertEquals([mode(path), mode(join(path, "..")), mode(cache)], [0o400, 0o700, 0o700]);
  });
});

Deno.test("an unpacked library is used again as it is", async () => {
  await withBundle("a library", async (bundle, cache) => {
    const path = await unpackLibrary(bundle, cache);
    const { ino } = await Deno.stat(path);
    assertEquals(await unpackLibrary(bundle, cache), path);
    assertEquals((await Deno.stat(path)).ino, ino);
  });
});

Deno.test("a library that was changed, made writable or exchanged for a link is written anew", async () => {
  await withBundle("a library", async (bundle, cache, root) => {
    const path = await unpackLibrary(bundle, cache);
    const evil = join(root, "evil");
    await Deno.writeTextFile(evil, "a library");
    const attacks = [
      () => Deno.chmodSync(path, 0o600),
      () => Deno.writeTextFileSync(path, "b library"),
      () => (Deno.removeSync(path), Deno.symlinkSync(evil, path)),
      () => Deno.chmodSync(path, 0o666),
    ];
    for (const attack of attacks) {
      attack();
      assertEquals(await unpackLibrary(bundle, cache), path);
      const info = await Deno.lstat(path);
      assertEquals([info.isSymlink, await Deno.readTextFile(path)], [false, "a library"]);
      assertEquals(info.mode! & 0o022, 0);
    }
    assertEquals(await Deno.readTextFile(evil), "a library");
  });
});

Deno.test("a folder that was opened to others is closed again", async () => {
  await withBundle("a library", async (bundle, cache) => {
    const folder = join(await unpackLibrary(bundle, cache), "..");
    await Deno.chmod(folder, 0o777);
    await unpackLibrary(bundle, cache);
    assertEquals(mode(folder), 0o700);
  });
});

Deno.test("a cache below a folder that others can write is refused, unless it is sticky as the temporary folder is", async () => {
  await withBundle("a library", async (bundle, cache, root) => {
    await Deno.mkdir(cache);
    await Deno.chmod(cache, 0o777);
    const error = await assertRejects(() => unpackLibrary(bundle, cache), LibraryError);
    assertStringIncludes(error.message, "can be written by other users (mode 777)");
    assertStringIncludes(error.message, "ROWLOCK_CACHE");
    await Deno.chmod(cache, 0o1777);
    assertStringIncludes(await unpackLibrary(bundle, cache), root);
  });
});

Deno.test("a program whose library is damaged says so and unpacks nothing", async () => {
  await withBundle("a library", async (bundle, cache) => {
    await Deno.writeTextFile(join(bundle.folder, NAME), "a librarx");
    const error = await assertRejects(() => unpackLibrary(bundle, cache), LibraryError);
    assertStringIncludes(error.message, "The program file is damaged");
    for await (const entry of Deno.readDir(join(cache, "native"))) {
      for await (const file of Deno.readDir(join(cache, "native", entry.name))) assertEquals(file.name, "lock");
    }
  });
});

Deno.test("the three libraries used last are kept", async () => {
  await withBundle("0", async (first, cache) => {
    await unpackLibrary(first, cache);
    for (const text of ["1", "2", "3", "4"]) {
      await withBundle(text, async (bundle) => void await unpackLibrary(bundle, cache));
      await unpackLibrary(first, cache);
    }
    const kept: string[] = [];
    for await (const { name } of Deno.readDir(join(cache, "native"))) kept.push(await Deno.readTextFile(join(cache, "native", name, NAME)));
    assertEquals(kept.length, 3);
    assertEquals(kept.includes("0") && kept.includes("4"), true, kept.join());
  });
});

Deno.test("programs that start at once leave one whole library", async () => {
  await withBundle("a library".repeat(10_000), async (bundle, cache) => {
    const paths = await Promise.all(Array.from({ length: 4 }, () => unpackLibrary(bundle, cache)));
    assertEquals(new Set(paths).size, 1);
    assertEquals(await Deno.readTextFile(paths[0]!), "a library".repeat(10_000));
  });
});
