import { assertEquals, assertThrows } from "@std/assert";
import { fileURLToPath } from "node:url";
import { loadModel } from "../../src/models/checkpoint.ts";
import { ModelFileError } from "../../src/models/model_file_error.ts";
import { quantizationOf } from "../../src/models/quantization.ts";
import { architectureOfModelType } from "../../src/models/registry.ts";

const FOLDER = new URL("../fixtures/golden/", import.meta.url);

function readConfig(name: string): Record<string, unknown> & { text_config: Record<string, unknown> } {
  return JSON.parse(Deno.readTextFileSync(new URL(`${name}/config.json`, FOLDER)));
}

Deno.test("Of a model that sees pictures, the text model is loaded and nothing else", () => {
  for (const [name, flatType] of [["gemma3", "gemma3_text"], ["mistral3", "llama"]] as const) {
    const model = loadModel(fileURLToPath(new URL(name, FOLDER)));
    assertEquals([model.modelType, model.spec.config["model_type"], model.vocabSize, model.stopIds], [name, flatType, 96, [95]]);
    assertEquals(model.spec.tensors.filter(({ name }) => !/^(model\.(layers|norm|embed_tokens)|lm_head)\b/.test(name)), []);
  }
});

Deno.test("Both layouts of the names are one to the text model", () => {
  const { tensorNameFromFolder } = architectureOfModelType("gemma3");
  assertEquals(
    [
      "language_model.model.layers.0.mlp.up_proj.weight",
      "model.language_model.layers.0.mlp.up_proj.weight",
      "language_model.lm_head.weight",
      "lm_head.weight",
      "vision_tower.x.weight",
      "multi_modal_projector.y",
    ].map((name) => tensorNameFromFolder!(name)),
    ["model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight", "lm_head.weight", "lm_head.weight", null, null],
  );
});

Deno.test("Quantization and tied heads of the whole checkpoint hold for its text model, by the modules' names there", () => {
  const config = readConfig("mistral3");
  const quantization = { group_size: 32, bits: 4, "language_model.lm_head": { group_size: 64, bits: 8 }, "vision_tower.x": false };
  const { config: flat } = architectureOfModelType("mistral3").resolve({ ...config, quantization }, () => true);
  assertEquals(quantizationOf(flat, "lm_head"), { bits: 8, groupSize: 64, mode: "affine" });
  assertEquals([flat["quant_bits"], flat["tie_word_embeddings"]], [4, false]);
  const tied = architectureOfModelType("mistral3").resolve({ ...config, tie_word_embeddings: true }, () => true);
  assertEquals(tied.config["tie_word_embeddings"], true);
});

Deno.test("A text model of another type, or none, is refused by name", () => {
  const config = readConfig("mistral3");
  const resolve = (change: unknown): unknown => architectureOfModelType("mistral3").resolve({ ...config, text_config: change }, () => true);
  assertThrows(
    () => resolve({ ...config.text_config, model_type: "ministral9" }),
    ModelFileError,
    'text_config.model_type is "ministral9": supported are mistral',
  );
  assertThrows(() => resolve(undefined), ModelFileError, "text_config is missing");
});
