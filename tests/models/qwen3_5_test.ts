import { assertEquals, assertThrows } from "@std/assert";
import { fileURLToPath } from "node:url";
import { loadModel } from "../../src/models/checkpoint.ts";
import { resolveMtp } from "../../src/models/drafter_mtp.ts";
import { findOwnDrafter } from "../../src/models/drafters.ts";
import { readGguf } from "../../src/models/gguf.ts";
import { GgufMetadata } from "../../src/models/gguf_metadata.ts";
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

const MIXTURE = { num_experts: 3, num_experts_per_tok: 2, moe_intermediate_size: 8, shared_expert_intermediate_size: 16 };

/** Shapes of layer 0's experts, by name, when the checkpoint has the tensor `name` in it. */
function expertShapes(name: string): Record<string, readonly number[]> {
  const config = readConfig();
  const mlp = "model.language_model.layers.0.mlp.";
  const { tensors } = resolve({ ...config, text_config: { ...config.text_config, ...MIXTURE } }, [...HF_NAMES, mlp + name]);
  const experts = tensors.filter((tensor) => /mlp[.](experts|switch_mlp)/.test(tensor.name) && tensor.name.startsWith(mlp));
  return Object.fromEntries(experts.map((tensor) => [(tensor.storedName ?? tensor.name).slice(mlp.length), tensor.shape]));
}

Deno.test("Experts are found stacked with gate and up in one tensor or two, and one by one", () => {
  assertEquals(expertShapes("experts.gate_up_proj"), { "experts.gate_up_proj": [3, 16, 64], "experts.down_proj": [3, 64, 8] });
  assertEquals(expertShapes("switch_mlp.gate_up_proj.weight"), {
    "switch_mlp.gate_up_proj.weight": [3, 16, 64],
    "switch_mlp.down_proj.weight": [3, 64, 8],
  });
  assertEquals(expertShapes("switch_mlp.gate_proj.weight"), {
    "switch_mlp.gate_proj.weight": [3, 8, 64],
    "switch_mlp.up_proj.weight": [3, 8, 64],
    "switch_mlp.down_proj.weight": [3, 64, 8],
  });
  const single = expertShapes("experts.0.gate_proj.weight");
  assertEquals([Object.keys(single).length, single["experts.2.down_proj.weight"]], [9, [64, 8]]);
});

Deno.test("A GGUF file with an MTP head counts its own layers only, and names what its converter changed", () => {
  const name = fileURLToPath(new URL("qwen3_5-moe-gguf/model.gguf", FOLDER));
  const file = readGguf(name);
  const changed = new Map(file.metadata.keys.map((key) => [key, file.metadata.get(key)!]));
  changed.set("qwen35moe.block_count", 4).set("qwen35moe.nextn_predict_layers", 1);
  changed.set("qwen35moe.attention.recurrent_layers", [true, true, false, false]);
  const config = qwen35.configFromGguf({ ...file, metadata: new GgufMetadata(name, changed) });
  const { config: flat } = qwen35.resolve(config, (tensor) => tensor === "model.embed_tokens.weight");
  assertEquals([flat["num_hidden_layers"], flat["layer_types"]], [3, "linear_attention,linear_attention,full_attention"]);
  assertEquals([flat["is_gguf"], flat["rotary_dims"], flat["linear_value_head_dim"]], [true, 4, 16]);
  changed.delete("qwen35moe.attention.recurrent_layers");
  changed.set("qwen35moe.full_attention_interval", 2);
  const older = qwen35.configFromGguf({ ...file, metadata: new GgufMetadata(name, changed) });
  assertEquals(qwen35.resolve(older, () => false).config["layer_types"], "linear_attention,full_attention,linear_attention");
});

Deno.test("An MTP head with experts is no drafter: the model is served without", () => {
  const config = readConfig();
  const moe = { ...config, text_config: { ...config.text_config, ...MIXTURE } };
  const target = { modelType: "qwen3_5", vocabSize: 264, hiddenSize: 64, numLayers: 4 };
  assertThrows(() => resolveMtp(moe, () => true, target), ModelFileError, "num_experts is 3: MTP heads with experts are not supported");
  const folder = fileURLToPath(new URL("qwen3_5", FOLDER));
  const model = loadModel(folder);
  assertEquals(findOwnDrafter(folder, model)?.kind, "mtp");
  assertEquals(findOwnDrafter(folder, { spec: { ...model.spec, config: { ...model.spec.config, num_experts: 3 } } }), null);
});

Deno.test("What is not supported is refused by name", () => {
  const cases: [Record<string, unknown>, string][] = [
    [{ attn_output_gate: false }, "attn_output_gate is false"],
    [{ attention_bias: true }, "attention_bias is true"],
    [{ num_experts: 8 }, "num_experts_per_tok is missing: models with experts need it"],
    [{ num_experts: 2, num_experts_per_tok: 3 }, "num_experts_per_tok is 3: there are 2 experts"],
    [{ intermediate_size: undefined }, "intermediate_size is missing: models without experts need it"],
    [{ hidden_act: "relu" }, 'hidden_act is "relu"'],
    [{ linear_num_value_heads: 3 }, "linear_num_value_heads is 3"],
    [{ layer_types: ["full_attention"] }, "layer_types"],
    [{ layer_types: new Array(4).fill("sliding_attention") }, "supported are full_attention, linear_attention"],
    [{ linear_conv_kernel_dim: 1 }, "linear_conv_kernel_dim is 1"],
    [{ rope_parameters: { rope_type: "default", rope_theta: 1e7, partial_rotary_factor: 1.5 } }, "partial_rotary_factor is 1.5"],
    [{ rope_parameters: { rope_type: "xpos", rope_theta: 1e7 } }, "rope_type"],
    [{ linear_key_head_dim: undefined }, "linear_key_head_dim is missing"],
  ];
  for (const [change, message] of cases) {
    const config = readConfig();
    assertThrows(() => resolve({ ...config, text_config: { ...config.text_config, ...change } }), ModelFileError, message);
  }
});
