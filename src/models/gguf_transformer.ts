/** Metadata and tensor names that llama.cpp gives to a decoder-only transformer with rotary positions. */
import type { GgufFile } from "./gguf.ts";
import { refuse } from "./config_parts.ts";

export interface GgufTransformerOptions {
  /** The architecture has mixtures of experts; a size of MLPs without them may be missing then. @default false */
  readonly hasExperts?: boolean;
  /** A part of each head may turn. @default false */
  readonly hasPartialRope?: boolean;
}

/** A config.json in Hugging Face's terms. Values are checked later, with those of real config.json files. */
export function ggufTransformerConfig(file: GgufFile, options: GgufTransformerOptions = {}): Record<string, unknown> {
  const { hasExperts = false, hasPartialRope = false } = options;
  const { metadata } = file;
  const architecture = metadata.required("general.architecture", metadata.string("general.architecture"));
  const number = (key: string): number | undefined => metadata.number(`${architecture}.${key}`);
  const required = (key: string): number => metadata.required(`${architecture}.${key}`, number(key));
  const numExperts = number("expert_count") ?? 0;
  if (numExperts > 0 && !hasExperts) refuse(`${architecture}.expert_count`, numExperts, "mixtures of experts are not supported");
  const headDim = number("attention.key_length") ?? required("embedding_length") / required("attention.head_count");
  const valueDim = number("attention.value_length") ?? headDim;
  if (valueDim !== headDim) refuse(`${architecture}.attention.value_length`, valueDim, `it has to equal the keys' length (${headDim})`);
  const rotaryDim = number("rope.dimension_count") ?? headDim;
  if (rotaryDim !== headDim && !hasPartialRope) {
    refuse(`${architecture}.rope.dimension_count`, rotaryDim, `it has to equal the head's size (${headDim})`);
  }
  const hasTensor = (name: string): boolean => file.tensors.some((tensor) => tensor.name === name);
  return {
    model_type: architecture,
    vocab_size: file.tensors.find((tensor) => tensor.name === "token_embd.weight")?.shape[0],
    hidden_size: required("embedding_length"),
    intermediate_size: hasExperts ? number("feed_forward_length") : required("feed_forward_length"),
    num_hidden_layers: required("block_count"),
    num_attention_heads: required("attention.head_count"),
    num_key_value_heads: number("attention.head_count_kv"),
    head_dim: headDim,
    rms_norm_eps: required("attention.layer_norm_rms_epsilon"),
    rope_theta: number("rope.freq_base"),
    rope_scaling: ropeScaling(file, architecture),
    partial_rotary_factor: rotaryDim / headDim,
    max_position_embeddings: required("context_length"),
    tie_word_embeddings: !hasTensor("output.weight"),
    attention_bias: hasTensor("blk.0.attn_q.bias"),
    mlp_bias: hasTensor("blk.0.ffn_gate.bias"),
  };
}

function ropeScaling(file: GgufFile, architecture: string): Record<string, unknown> | null {
  const scaling = (key: string): number | undefined => file.metadata.number(`${architecture}.rope.scaling.${key}`);
  const original = scaling("original_context_length");
  // LongRoPE is told by its tensors: the converter writes no type for it.
  if (file.tensors.some(({ name }) => name === "rope_factors_long.weight")) {
    return {
      rope_type: "longrope",
      attention_factor: scaling("attn_factor"),
      original_max_position_embeddings: original,
      has_factor_tensors: true,
    };
  }
  const oldFactor = file.metadata.number(`${architecture}.rope.scale_linear`);
  const type = file.metadata.string(`${architecture}.rope.scaling.type`) ?? (oldFactor === undefined ? "none" : "linear");
  if (type === "none") return null;
  return {
    rope_type: type,
    factor: scaling("factor") ?? oldFactor,
    original_max_position_embeddings: original,
    beta_fast: scaling("yarn_beta_fast"),
    beta_slow: scaling("yarn_beta_slow"),
  };
}

const TOP_NAMES: Readonly<Record<string, string>> = {
  "token_embd.weight": "model.embed_tokens.weight",
  "output_norm.weight": "model.norm.weight",
  "output.weight": "lm_head.weight",
  "rope_freqs.weight": "rope_freqs.weight",
  "rope_factors_long.weight": "rope_factors_long.weight",
  "rope_factors_short.weight": "rope_factors_short.weight",
};

const LAYER_NAMES: Readonly<Record<string, string>> = {
  attn_norm: "input_layernorm",
  attn_q: "self_attn.q_proj",
  attn_k: "self_attn.k_proj",
  attn_v: "self_attn.v_proj",
  attn_output: "self_attn.o_proj",
  attn_q_norm: "self_attn.q_norm",
  attn_k_norm: "self_attn.k_norm",
  ffn_norm: "post_attention_layernorm",
  ffn_gate: "mlp.gate_proj",
  ffn_up: "mlp.up_proj",
  ffn_down: "mlp.down_proj",
};

/**
 * `blk.3.attn_q.weight` → `model.layers.3.self_attn.q_proj.weight`; null for names that are not known.
 * @param own names of a layer's modules that an architecture adds or uses differently.
 */
export function ggufTransformerTensorName(name: string, own: Readonly<Record<string, string>> = {}): string | null {
  if (Object.hasOwn(TOP_NAMES, name)) return TOP_NAMES[name]!;
  const [, layer, module, kind] = /^blk\.(\d+)\.([a-z0-9_]+)\.(weight|bias)$/.exec(name) ?? [];
  const names = { ...LAYER_NAMES, ...own };
  if (module === undefined || !Object.hasOwn(names, module)) return null;
  return `model.layers.${layer}.${names[module]}.${kind}`;
}
