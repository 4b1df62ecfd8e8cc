import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { parseBuildStep } from "../../scripts/native/cmake.ts";
import { isRecent } from "../../scripts/native/mlx_sources.ts";
import { buildKey, folderKey } from "../../scripts/native/native_paths.ts";

Deno.test("build steps are read from ninja's and make's lines and from no other", () => {
  assertEquals(parseBuildStep("[12/115] Building CXX object mlx/CMakeFiles/mlx.dir/ops.cpp.o"), { done: 12, total: 115 });
  assertEquals(parseBuildStep("[  7%] Building C object x.o"), { done: 7, total: 100 });
  assertEquals(parseBuildStep("/usr/include/x.h:12:3: warning: [1/2] is odd"), null);
});

Deno.test("versions of cargo are compared by number, with Debian's additions", () => {
  const recent = ["1.85.0", "1.96.0+dfsg1-1~deb12u2", "1:1.90.0", "2.0.1"];
  const old = ["1.84.1", "0.66.0+ds1-1", "1.9.0", "", "(none)", null];
  assertEquals([recent.map(isRecent), old.map(isRecent)], [recent.map(() => true), old.map(() => false)]);
});

Deno.test("a build key depends on every part and on where one part ends", () => {
  assertEquals(buildKey(["a", "bc"]), buildKey(["a", "bc"]));
  const others = [buildKey(["ab", "c"]), buildKey(["bc", "a"]), buildKey(["a", "bc", ""]), buildKey(["a", "bd"])];
  assertEquals(others.includes(buildKey(["a", "bc"])), false);
});

Deno.test("a folder's key changes with a file's content, name and place, and with nothing else", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.mkdir(join(folder, "src"));
    await Deno.writeTextFile(join(folder, "src", "a.c"), "int a;");
    const key = await folderKey(folder);
    await Deno.utime(join(folder, "src", "a.c"), new Date(0), new Date(0));
    assertEquals(await folderKey(folder), key);
    await Deno.rename(join(folder, "src", "a.c"), join(folder, "a.c"));
    const moved = await folderKey(folder);
    await Deno.writeTextFile(join(folder, "a.c"), "int b;");
    assertEquals(new Set([key, moved, await folderKey(folder)]).size, 3);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
