import { assertEquals, assertRejects } from "@std/assert";
import type { Bundle } from "../../src/cli/bundle.ts";
import { libraryPath } from "../../src/cli/library_path.ts";
import { LibraryError } from "../../src/native/library.ts";

async function withLibrary<T>(path: string, body: () => Promise<T>): Promise<T> {
  const before = Deno.env.get("ROWLOCK_LIBRARY");
  Deno.env.set("ROWLOCK_LIBRARY", path);
  try {
    return await body();
  } finally {
    if (before === undefined) Deno.env.delete("ROWLOCK_LIBRARY");
    else Deno.env.set("ROWLOCK_LIBRARY", before);
  }
}

Deno.test("a library that is named and not there is told by its variable, and a program that has its own never tells how to build one", async () => {
  const bundle = { folder: "inside", facts: { libraryFiles: [] } } as unknown as Bundle;
  const cases = [
    [bundle, "to use the one inside the program"],
    [null, 'and run "deno task setup", which finds or builds one'],
  ] as const;
  for (const [given, instead] of cases) {
    const expected = `ROWLOCK_LIBRARY is "/no/such.so", where no file is; name a native library, or unset it ${instead}`;
    const { message } = await assertRejects(() => withLibrary("/no/such.so", () => libraryPath(given)), LibraryError);
    assertEquals(message, expected);
  }
});

Deno.test("a library that is named is the one that is opened", async () => {
  const file = await Deno.makeTempFile();
  try {
    assertEquals(await withLibrary(file, () => libraryPath(null)), file);
  } finally {
    await Deno.remove(file);
  }
});
