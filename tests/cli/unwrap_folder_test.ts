import { assertEquals, assertThrows } from "@std/assert";
import { join } from "node:path";
import { checkModelName } from "../../src/cli/model_source.ts";
import { unwrapFolder } from "../../src/cli/unwrap_folder.ts";
import { ModelFileError } from "../../src/models/model_file_error.ts";

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

Deno.test("a folder with config.json and safetensors, a file, and what is not there stay what they are", () => {
  for (const weights of ["model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"]) {
    withFiles(["config.json", weights, "m.gguf"], (folder) => assertEquals(unwrapFolder(folder), folder));
  }
  withFiles(["README.md"], (folder) => {
    for (const path of [join(folder, "README.md"), join(folder, "absent")]) assertEquals(unwrapFolder(path), path);
  });
});

Deno.test("a .gguf file counts where config or safetensors are missing, as the hub's repositories of such files have them", () => {
  withFiles(["config.json", "m.gguf"], (folder) => assertEquals(unwrapFolder(folder), join(folder, "m.gguf")));
  withFiles(["model.safetensors", "m.gguf"], (folder) => assertEquals(unwrapFolder(folder), join(folder, "m.gguf")));
});

Deno.test("a folder without a model is refused with what is missing, what a model's folder needs, and what was found", () => {
  const needs = "a model's folder has config.json, model*.safetensors and, for text, tokenizer.json, or it has a .gguf file";
  const cases: [string[], string, string][] = [
    [[], "no config.json and no model*.safetensors", "nothing"],
    [["README.md", "mmproj-m.gguf"], "no config.json and no model*.safetensors", "README.md, mmproj-m.gguf"],
    [["tokenizer.json", "config.json"], "no model*.safetensors", "config.json, tokenizer.json"],
    [["model.safetensors"], "no config.json", "model.safetensors"],
    [[..."abcdefghij"], "no config.json and no model*.safetensors", "a, b, c, d, e, f, g, h and 2 more"],
  ];
  for (const [names, missing, found] of cases) {
    withFiles(names, (folder) => {
      const { message } = assertThrows(() => unwrapFolder(folder), ModelFileError);
      assertEquals(message, `Cannot use ${folder} as a model: it has ${missing}; ${needs}; found ${found}`);
      assertThrows(() => checkModelName(folder), ModelFileError, message);
    });
  }
});

Deno.test("a folder with several models as .gguf files is refused, with the names to choose from", () => {
  withFiles(["b.gguf", "a.gguf"], (folder) => {
    assertThrows(() => unwrapFolder(folder), Error, "several .gguf files; name one of them: a.gguf, b.gguf");
  });
});
