/** Qwen3.5 in GGUF files: llama.cpp's keys and names, and what its converter changes in the tensors. */
import type { GgufFile } from "./gguf.ts";
import { ggufTransformerConfig, ggufTransformerTensorName } from "./gguf_transformer.ts";

const NAMES = {
  post_attention_norm: "post_attention_layernorm",
  attn_qkv: "linear_attn.in_proj_qkv",
  attn_gate: "linear_attn.in_proj_z",
  ssm_beta: "linear_attn.in_proj_b",
  ssm_alpha: "linear_attn.in_proj_a",
  ssm_conv1d: "linear_attn.conv1d",
  ssm_norm: "linear_attn.norm",
  ssm_out: "linear_attn.out_proj",
  ffn_gate_inp: "mlp.gate",
  ffn_gate_exps: "mlp.switch_mlp.gate_proj",
  ffn_up_exps: "mlp.switch_mlp.up_proj",
  ffn_gate_up_exps: "mlp.switch_mlp.gate_up_proj",
  ffn_down_exps: "mlp.switch_mlp.down_proj",
  ffn_gate_inp_shexp: "mlp.shared_expert_gate",
  ffn_gate_shexp: "mlp.shared_expert.gate_proj",
  ffn_up_shexp: "mlp.shared_expert.up_proj",
  ffn_down_shexp: "mlp.shared_expert.down_proj",
};

/** Two tensors of a delta net are no module's weight or bias. */
const BARE_NAMES: Readonly<Record<string, string>> = { ssm_a: "A_log", "ssm_dt.bias": "dt_bias" };

export function qwen35TensorNameFromGguf(name: string): string | null {
  const [, layer, rest = ""] = /^blk\.(\d+)\.(.+)$/.exec(name) ?? [];
  if (Object.hasOwn(BARE_NAMES, rest)) return `model.layers.${layer}.linear_attn.${BARE_NAMES[rest]}`;
  return ggufTransformerTensorName(name, NAMES);
}

/** MTP heads are blocks behind the model's own. */
export function qwen35ConfigFromGguf(file: GgufFile): Record<string, unknown> {
  const { metadata } = file;
  const architecture = metadata.required("general.architecture", metadata.string("general.architecture"));
  const number = (key: string): number | undefined => metadata.number(`${architecture}.${key}`);
  const required = (key: string): number => metadata.required(`${architecture}.${key}`, number(key));
  const numLayers = required("block_count") - (number("nextn_predict_layers") ?? 0);
  const numValueHeads = required("ssm.time_step_rank");
  const isMixture = architecture === "qwen35moe";
  const config = ggufTransformerConfig(file, { hasExperts: isMixture, hasPartialRope: true });
  return {
    ...config,
    is_gguf: true,
    num_hidden_layers: numLayers,
    layer_types: layerTypes(metadata.booleans(`${architecture}.attention.recurrent_layers`), numLayers),
    full_attention_interval: number("full_attention_interval"),
    linear_num_key_heads: required("ssm.group_count"),
    linear_num_value_heads: numValueHeads,
    linear_key_head_dim: required("ssm.state_size"),
    linear_value_head_dim: required("ssm.inner_size") / numValueHeads,
    linear_conv_kernel_dim: required("ssm.conv_kernel"),
    attention_bias: false,
    ...(isMixture ? mixtureConfig(required, number) : {}),
  };
}

/** Newer files tell it of each block, older ones by an interval alone. */
function layerTypes(isRecurrent: readonly boolean[] | undefined, numLayers: number): string[] | undefined {
  return isRecurrent?.slice(0, numLayers).map((recurrent) => recurrent ? "linear_attention" : "full_attention");
}

function mixtureConfig(required: (key: string) => number, number: (key: string) => number | undefined): Record<string, unknown> {
  const width = required("expert_feed_forward_length");
  return {
    num_experts: required("expert_count"),
    num_experts_per_tok: required("expert_used_count"),
    moe_intermediate_size: width,
    shared_expert_intermediate_size: number("expert_shared_feed_forward_length") ?? width,
  };
}
