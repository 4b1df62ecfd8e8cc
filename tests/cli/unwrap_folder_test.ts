import { assertEquals, assertThrows } from "@std/assert";
import { join } from "node:path";
import { unwrapFolder } from "../../src/cli/unwrap_folder.ts";

function withFiles(names: readonly string[], body: (folder: string) => void): void {
  const folder = Deno.makeTempDirSync();
  try {
    for (const name of names) Deno.writeTextFileSync(join(folder, name), "x");
    body(folder);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

Deno.test("a folder with one model as .gguf is that file, whether in one part or in several, beside a projector or not", () => {
  withFiles(["README.md", "m.gguf", "mmproj-m.gguf"], (folder) => assertEquals(unwrapFolder(folder), join(folder, "m.gguf")));
  const parts = ["m-00002-of-00002.gguf", "m-00001-of-00002.gguf"];
  withFiles(parts, (folder) => assertEquals(unwrapFolder(folder), join(folder, "m-00001-of-00002.gguf")));
});

Deno.test("a folder with config.json, one without models, a file, and what is not there stay what they are", () => {
  withFiles(["config.json", "m.gguf"], (folder) => assertEquals(unwrapFolder(folder), folder));
  withFiles(["README.md"], (folder) => {
    for (const path of [folder, join(folder, "README.md"), join(folder, "absent")]) assertEquals(unwrapFolder(path), path);
  });
});

Deno.test("a folder with several models as .gguf files is refused, with the names to choose from", () => {
  withFiles(["b.gguf", "a.gguf"], (folder) => {
    assertThrows(() => unwrapFolder(folder), Error, "several .gguf files; name one of them: a.gguf, b.gguf");
  });
});
