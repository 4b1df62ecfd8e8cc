/** What the architectures read from configs and GGUF files beyond Llama's; what they compute is tested with golden checkpoints. */
import { assertEquals, assertThrows } from "@std/assert";
import type { Architecture, ResolvedModel } from "../../src/models/architecture.ts";
import { readGguf } from "../../src/models/gguf.ts";
import { ModelFileError } from "../../src/models/model_file_error.ts";
import { quantizationOf } from "../../src/models/quantization.ts";
import { architectureOfGguf, architectureOfModelType } from "../../src/models/registry.ts";
import { type GgufField, writeGguf } from "./gguf_writer.ts";
import { TemporaryFolder } from "./temporary.ts";

const COMMON = {
  vocab_size: 100,
  hidden_size: 32,
  intermediate_size: 48,
  num_hidden_layers: 4,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 8,
  max_position_embeddings: 1000,
};

function resolve(modelType: string, config: Record<string, unknown> = {}, tensors: readonly string[] = []): ResolvedModel {
  return architectureOfModelType(modelType).resolve({ ...COMMON, ...config }, (name) => tensors.includes(name));
}

function pick(model: ResolvedModel, ...keys: string[]): unknown[] {
  return keys.map((key) => model.config[key]);
}

function shapes(model: ResolvedModel, prefix: string): Record<string, readonly number[]> {
  const found = model.tensors.filter(({ name }) => name.startsWith(prefix));
  return Object.fromEntries(found.map(({ name, shape }) => [name.slice(prefix.length), shape]));
}

function refuse(modelType: string, config: Record<string, unknown>, message: string): void {
  assertThrows(() => resolve(modelType, config), ModelFileError, message);
}

/** The config that an architecture makes of a GGUF header of 4 layers. */
function ggufConfig(
  name: string,
  own: Readonly<Record<string, GgufField>>,
): { architecture: Architecture; config: Record<string, unknown> } {
  using folder = new TemporaryFolder();
  const sizes = {
    block_count: 4,
    context_length: 1000,
    embedding_length: 32,
    feed_forward_length: 48,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.key_length": 8,
    "attention.value_length": 8,
  };
  const fields: [string, GgufField][] = [
    ["general.architecture", { type: "string", value: name }],
    ...Object.entries(sizes).map(([key, value]): [string, GgufField] => [`${name}.${key}`, { type: "u32", value }]),
    [`${name}.attention.layer_norm_rms_epsilon`, { type: "f32", value: 0.5 }],
    ...Object.entries(own).map(([key, value]): [string, GgufField] => [`${name}.${key}`, value]),
  ];
  const tensors = [{ name: "token_embd.weight", typeId: 0, dims: [32, 100], byteLength: 12_800 }];
  const architecture = architectureOfGguf(name);
  const path = folder.write("model.gguf", writeGguf({ fields, tensors }).bytes);
  return { architecture, config: architecture.configFromGguf(readGguf(path)) };
}

const SLIDING = "sliding_attention";
const FULL = "full_attention";

Deno.test("Qwen2 has biases on queries, keys and values, and a window only when it is asked for", () => {
  const model = resolve("qwen2", { sliding_window: 16, use_sliding_window: false, tie_word_embeddings: true });
  assertEquals(Object.keys(shapes(model, "model.layers.3.self_attn.")), [
    "q_proj.weight",
    "q_proj.bias",
    "k_proj.weight",
    "k_proj.bias",
    "v_proj.weight",
    "v_proj.bias",
    "o_proj.weight",
  ]);
  assertEquals(pick(model, "model_type", "sliding_window", "layer_types"), ["qwen2", 0, ""]);
  const sliding = resolve("qwen2", { sliding_window: 16, use_sliding_window: true, max_window_layers: 2 });
  assertEquals(pick(sliding, "sliding_window", "layer_types"), [16, [FULL, FULL, SLIDING, SLIDING].join(",")]);
});

Deno.test("Qwen3 has a norm for the queries and keys of each head", () => {
  const tensors = shapes(resolve("qwen3", { head_dim: 16 }), "model.layers.0.self_attn.");
  assertEquals([tensors["q_norm.weight"], tensors["k_norm.weight"], tensors["q_proj.weight"]], [[16], [16], [64, 32]]);
});

const MIXTURE = { num_experts: 3, num_experts_per_tok: 2, moe_intermediate_size: 8 };

Deno.test("Qwen3-MoE finds its experts one by one or stacked, and knows which layers have none", () => {
  const single = resolve("qwen3_moe", { ...MIXTURE, mlp_only_layers: [1], decoder_sparse_step: 1 });
  assertEquals(pick(single, "sparse_layers", "norm_topk_prob", "num_experts", "num_experts_per_tok"), ["1,0,1,1", false, 3, 2]);
  assertEquals(Object.keys(shapes(single, "model.layers.0.mlp.")).length, 1 + 3 * 3);
  assertEquals(shapes(single, "model.layers.1.mlp."), {
    "gate_proj.weight": [48, 32],
    "up_proj.weight": [48, 32],
    "down_proj.weight": [32, 48],
  });
  const stacked = resolve("qwen3_moe", { ...MIXTURE, decoder_sparse_step: 2 }, ["model.layers.1.mlp.switch_mlp.gate_proj.weight"]);
  assertEquals(stacked.config["sparse_layers"], "0,1,0,1");
  assertEquals(shapes(stacked, "model.layers.1.mlp."), {
    "gate.weight": [3, 32],
    "switch_mlp.gate_proj.weight": [3, 8, 32],
    "switch_mlp.up_proj.weight": [3, 8, 32],
    "switch_mlp.down_proj.weight": [3, 32, 8],
  });
  refuse("qwen3_moe", { ...MIXTURE, num_experts_per_tok: 4 }, "num_experts_per_tok is 4: there are 3 experts");
});

Deno.test("SmolLM3 leaves out positions in every fourth layer, or where its config says", () => {
  assertEquals(pick(resolve("smollm3"), "no_rope_layers"), ["1,1,1,0"]);
  assertEquals(pick(resolve("smollm3", { no_rope_layers: [0, 1, 0, 1] }), "no_rope_layers"), ["0,1,0,1"]);
  refuse("smollm3", { no_rope_layers: [0, 1] }, "one entry for each of the 4 layers");
});

Deno.test("Phi-3 has fused projections, and a window in all layers if in any", () => {
  const model = resolve("phi3", { sliding_window: 20 });
  assertEquals(shapes(model, "model.layers.2.self_attn."), { "qkv_proj.weight": [64, 32], "o_proj.weight": [32, 32] });
  assertEquals(shapes(model, "model.layers.2.mlp."), { "gate_up_proj.weight": [96, 32], "down_proj.weight": [32, 48] });
  assertEquals(pick(model, "sliding_window", "layer_types"), [20, new Array(4).fill(SLIDING).join(",")]);
  assertEquals(pick(resolve("phi3"), "sliding_window"), [0]);
  const turning = resolve("phi3", { partial_rotary_factor: 0.75 });
  assertEquals(pick(turning, "rotary_dims", "rope_attention_factor"), [6, undefined]);
});

Deno.test("Gemma 3 slides in all but every sixth layer, with two rotary bases", () => {
  const model = resolve("gemma3_text", { num_hidden_layers: 7, sliding_window: 16, rope_scaling: { rope_type: "linear", factor: 8 } });
  assertEquals(pick(model, "layer_types"), [[...new Array(5).fill(SLIDING), FULL, SLIDING].join(",")]);
  const keys = ["rope_theta", "rope_local_base_freq", "rope_type", "rope_factor", "norm_offset", "query_pre_attn_scalar"];
  assertEquals(pick(model, ...keys), [1_000_000, 10_000, "linear", 8, 1, 256]);
  assertEquals(Object.keys(shapes(model, "model.layers.0.")).filter((name) => name.endsWith("layernorm.weight")).length, 4);
  const newer = resolve("gemma3_text", {
    layer_types: [FULL, SLIDING, SLIDING, FULL],
    rope_parameters: {
      full_attention: { rope_theta: 5000, rope_type: "default" },
      sliding_attention: { rope_theta: 300, rope_type: "default" },
    },
  });
  assertEquals(pick(newer, "rope_theta", "rope_local_base_freq", "layer_types"), [5000, 300, [FULL, SLIDING, SLIDING, FULL].join(",")]);
  refuse("gemma3_text", { hidden_activation: "gelu" }, 'hidden_act is "gelu": only gelu_pytorch_tanh is supported');
  refuse("gemma3_text", { final_logit_softcapping: 30 }, "final_logit_softcapping is 30: capped logits are not supported");
});

Deno.test("MXFP4 is told from affine quantization, for all modules or for some", () => {
  const { config } = resolve("qwen3", {
    tie_word_embeddings: false,
    quantization: { mode: "mxfp4", group_size: 32, bits: 4, "lm_head": { mode: "affine", group_size: 64, bits: 8 } },
  });
  assertEquals(quantizationOf(config, "model.layers.0.mlp.up_proj"), { bits: 4, groupSize: 32, mode: "mxfp4" });
  assertEquals(quantizationOf(config, "lm_head"), { bits: 8, groupSize: 64, mode: "affine" });
  const mixed =
    resolve("qwen3", { tie_word_embeddings: false, quantization: { group_size: 64, bits: 6, "lm_head": { mode: "mxfp4" } } }).config;
  assertEquals([quantizationOf(mixed, "lm_head").mode, quantizationOf(mixed, "model.embed_tokens").bits], ["mxfp4", 6]);
});

Deno.test("A Gemma 3 GGUF keeps its norms as they are and names four of them", () => {
  const { architecture, config } = ggufConfig("gemma3", { "attention.sliding_window": { type: "u32", value: 16 } });
  const model = architecture.resolve(config, () => false);
  assertEquals(pick(model, "norm_offset", "query_pre_attn_scalar", "sliding_window", "rope_local_base_freq"), [0, 8, 16, 10_000]);
  const names = ["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"].map((name) =>
    architecture.tensorNameFromGguf(`blk.2.${name}.weight`)
  );
  const expected = ["input", "post_attention", "pre_feedforward", "post_feedforward"].map((name) =>
    `model.layers.2.${name}_layernorm.weight`
  );
  assertEquals(names, expected);
});

Deno.test("A Qwen3-MoE GGUF has stacked experts whose weights add up to 1", () => {
  const number = (value: number): GgufField => ({ type: "u32", value });
  const { architecture, config } = ggufConfig("qwen3moe", {
    expert_count: number(3),
    expert_used_count: number(2),
    expert_feed_forward_length: number(8),
  });
  const model = architecture.resolve(config, (name) => name.includes("switch_mlp"));
  assertEquals(pick(model, "model_type", "norm_topk_prob", "num_experts"), ["qwen3_moe", true, 3]);
  assertEquals(architecture.tensorNameFromGguf("blk.1.ffn_gate_inp.weight"), "model.layers.1.mlp.gate.weight");
  assertEquals(architecture.tensorNameFromGguf("blk.1.ffn_down_exps.weight"), "model.layers.1.mlp.switch_mlp.down_proj.weight");
  assertEquals(shapes(model, "model.layers.0.mlp.switch_mlp.")["down_proj.weight"], [3, 32, 8]);
});

Deno.test("GGUF files of the others differ in order and names only", () => {
  const smolLm3 = ggufConfig("smollm3", {});
  assertEquals(pick(smolLm3.architecture.resolve(smolLm3.config, () => false), "qk_interleaved", "no_rope_layers"), [true, "1,1,1,0"]);
  const phi3 = ggufConfig("phi3", { "attention.sliding_window": { type: "u32", value: 0 } });
  assertEquals(pick(phi3.architecture.resolve(phi3.config, () => false), "model_type", "sliding_window"), ["phi3", 0]);
  assertEquals(phi3.architecture.tensorNameFromGguf("blk.0.ffn_up.weight"), "model.layers.0.mlp.gate_up_proj.weight");
  assertEquals(phi3.architecture.tensorNameFromGguf("blk.0.attn_qkv.weight"), "model.layers.0.self_attn.qkv_proj.weight");
  for (const name of ["qwen2", "qwen3"]) {
    const { architecture, config } = ggufConfig(name, {});
    assertEquals(pick(architecture.resolve(config, () => false), "model_type", "rms_norm_eps", "head_dim"), [name, 0.5, 8]);
  }
});
