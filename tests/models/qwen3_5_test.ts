import { assertEquals, assertThrows } from "@std/assert";
import { fileURLToPath } from "node:url";
import { loadModel } from "../../src/models/checkpoint.ts";
import { ModelFileError } from "../../src/models/model_file_error.ts";
import { qwen35 } from "../../src/models/qwen3_5.ts";

const FOLDER = new URL("../fixtures/golden/", import.meta.url);

function readConfig(): Record<string, unknown> & { text_config: Record<string, unknown> } {
  return JSON.parse(Deno.readTextFileSync(new URL("qwen3_5/config.json", FOLDER)));
}

const HF_NAMES = ["model.language_model.embed_tokens.weight", "lm_head.weight"];

function resolve(config: unknown, names: readonly string[] = HF_NAMES): ReturnType<typeof qwen35.resolve> {
  return qwen35.resolve(config, (name) => names.includes(name));
}

Deno.test("A Qwen3.5 folder loads its text model: no vision, no MTP head, stop ids from the text's config", () => {
  const model = loadModel(fileURLToPath(new URL("qwen3_5", FOLDER)));
  assertEquals([model.modelType, model.vocabSize, model.maxContext, model.stopIds], ["qwen3_5", 264, 4096, [263]]);
  const names = model.spec.tensors.map(({ name }) => name);
  assertEquals(names.filter((name) => /visual|mtp/.test(name)), []);
  assertEquals(names.length, 56);
  const { config } = model.spec;
  assertEquals([config["rotary_dims"], config["rope_theta"], config["head_dim"]], [8, 1e7, 32]);
  assertEquals(config["layer_types"], "linear_attention,linear_attention,linear_attention,full_attention");
});

Deno.test("The converted layout is read by its own names, with the kernel in its own shape", () => {
  const { spec } = loadModel(fileURLToPath(new URL("qwen3_5-mlx", FOLDER)));
  assertEquals(spec.tensors.every(({ name }) => name.startsWith("language_model.")), true);
  assertEquals(spec.tensors.find(({ name }) => name.endsWith("layers.0.linear_attn.conv1d.weight"))?.shape, [160, 4, 1]);
});

Deno.test("Layer types come from the interval when the config has no list", () => {
  const config = readConfig();
  const { layer_types: _, ...text } = config.text_config;
  const types = (interval: number): unknown =>
    resolve({ ...config, text_config: { ...text, full_attention_interval: interval } }).config["layer_types"];
  assertEquals(types(2), "linear_attention,full_attention,linear_attention,full_attention");
  assertEquals(types(4), "linear_attention,linear_attention,linear_attention,full_attention");
});

Deno.test("A text-only config and one with a tied head resolve", () => {
  const config = readConfig();
  const { config: flat, tensors } = resolve({ ...config.text_config, tie_word_embeddings: true }, ["model.embed_tokens.weight"]);
  assertEquals([flat["model_type"], flat["tie_word_embeddings"], tensors[0]?.name], ["qwen3_5", true, "model.embed_tokens.weight"]);
  assertEquals(tensors.some(({ name }) => name.endsWith("lm_head.weight")), false);
});

Deno.test("Quantization of the whole checkpoint holds for its text model", () => {
  const names = ["language_model.model.embed_tokens.weight", "language_model.lm_head.weight"];
  const quantization = { group_size: 32, bits: 4, "language_model.lm_head": { group_size: 64, bits: 8 } };
  const { config } = resolve({ ...readConfig(), quantization }, names);
  assertEquals([config["quant_bits"], config["quant_group_size"], config["quant.language_model.lm_head"]], [4, 32, "8,64"]);
});

Deno.test("What is not supported is refused by name", () => {
  const cases: [Record<string, unknown>, string][] = [
    [{ attn_output_gate: false }, "attn_output_gate is false"],
    [{ attention_bias: true }, "attention_bias is true"],
    [{ num_experts: 8 }, "num_experts is 8"],
    [{ hidden_act: "relu" }, 'hidden_act is "relu"'],
    [{ linear_num_value_heads: 3 }, "linear_num_value_heads is 3"],
    [{ layer_types: ["full_attention"] }, "layer_types"],
    [{ layer_types: new Array(4).fill("sliding_attention") }, "supported are full_attention, linear_attention"],
    [{ linear_conv_kernel_dim: 1 }, "linear_conv_kernel_dim is 1"],
    [{ rope_parameters: { rope_type: "default", rope_theta: 1e7, partial_rotary_factor: 1.5 } }, "partial_rotary_factor is 1.5"],
    [{ rope_parameters: { rope_type: "yarn", rope_theta: 1e7 } }, "rope_type"],
    [{ linear_key_head_dim: undefined }, "linear_key_head_dim is missing"],
  ];
  for (const [change, message] of cases) {
    const config = readConfig();
    assertThrows(() => resolve({ ...config, text_config: { ...config.text_config, ...change } }), ModelFileError, message);
  }
});
