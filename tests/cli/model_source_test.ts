import { assertEquals, assertThrows } from "@std/assert";
import { checkModelName, isDefaultModel } from "../../src/cli/model_source.ts";
import { needsDefaultModel } from "../../src/cli/serve_models.ts";

const DEFAULT_NAMES = [null, "SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct.Q4_1.gguf"];

Deno.test("the default model goes by no name and by its own", () => {
  assertEquals(DEFAULT_NAMES.map(isDefaultModel), [true, true, true]);
  assertEquals(["smollm2", "SmolLM2-135M", "HuggingFaceTB/SmolLM2-135M-Instruct", "."].map(isDefaultModel), [false, false, false, false]);
  for (const model of DEFAULT_NAMES) assertEquals(needsDefaultModel({ model, models: null }), true);
  assertEquals(needsDefaultModel({ model: null, models: "org/other, SmolLM2-135M-Instruct" }), true);
  assertEquals(needsDefaultModel({ model: null, models: "org/other" }), false);
});

Deno.test("a folder or file of the default model's name is what its name says", async () => {
  const [folder, before] = [await Deno.makeTempDir(), Deno.cwd()];
  try {
    Deno.chdir(folder);
    await Deno.mkdir("SmolLM2-135M-Instruct");
    assertEquals(isDefaultModel("SmolLM2-135M-Instruct"), false);
    assertThrows(() => checkModelName("SmolLM2-135M-Instruct"), Error, "SmolLM2-135M-Instruct as a model: it has no config.json");
  } finally {
    Deno.chdir(before);
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a path that is not there is told at once, a repository is not looked for", () => {
  for (const name of [null, "SmolLM2-135M-Instruct", "org/model", "org/model@main:Q4"]) checkModelName(name);
  for (const name of ["absent", "models/tiny.gguf", "/no/such/folder"]) {
    assertThrows(() => checkModelName(name), Error, `There is no file or folder ${name}`);
  }
});
