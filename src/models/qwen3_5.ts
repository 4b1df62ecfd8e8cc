/**
 * Qwen3.5, text: layers with a recurrent state (gated delta nets), every few of them one of gated attention with rotary positions on a part of
 * each head. Vision and MTP tensors of the checkpoint are not part of the text model.
 */
import { z } from "zod";
import type { Architecture, ExpectedTensor, FlatConfig, ResolvedModel } from "./architecture.ts";
import { type HeadSizes, headSizes, maybe, parseConfig, refuse, ropeConfig, size, transformerShape } from "./config_parts.ts";
import { blockNorms, checkActivation, decoderConfig, linear, mlpTensors, norm, resolvedModel } from "./decoder_parts.ts";
import { ModelFileError } from "./model_file_error.ts";

const schema = z.looseObject({
  ...transformerShape,
  linear_num_key_heads: size,
  linear_num_value_heads: size,
  linear_key_head_dim: size,
  linear_value_head_dim: size,
  linear_conv_kernel_dim: z.int().min(2).max(64),
  full_attention_interval: size.default(4),
  attn_output_gate: z.boolean().default(true),
  attention_bias: maybe(z.boolean()),
  num_experts: maybe(z.int()),
  mtp_num_hidden_layers: maybe(z.int().min(0).max(16)),
  mtp_use_dedicated_embeddings: maybe(z.boolean()),
});

export type Qwen35Config = z.infer<typeof schema>;

export const qwen35: Architecture = {
  modelTypes: ["qwen3_5", "qwen3_5_text"],
  ggufArchitectures: [],
  configFromGguf: () => {
    throw new ModelFileError("Cannot use the model: Qwen3.5 is supported as a folder of safetensors, not as a GGUF file");
  },
  tensorNameFromGguf: () => null,
  resolve: (config, hasTensor) => resolveQwen35(readQwen35Config(config), hasTensor),
};

/** The text model's part of a config.json: `text_config` where there is one. What the whole checkpoint is given once stays valid for it. */
export function readQwen35Config(config: unknown): Qwen35Config {
  const whole = parseConfig(z.looseObject({ text_config: maybe(z.looseObject({})) }), config);
  const { tie_word_embeddings, quantization, quantization_config } = whole;
  const shared = Object.entries({ tie_word_embeddings, quantization, quantization_config }).filter(([, value]) => (value ?? null) !== null);
  const text = parseConfig(schema, { ...(whole.text_config ?? whole), ...Object.fromEntries(shared) });
  checkActivation(text.hidden_act, "silu");
  if (!text.attn_output_gate) refuse("attn_output_gate", false, "only true is supported");
  if (text.attention_bias) refuse("attention_bias", true, "only false is supported");
  if ((text.num_experts ?? 0) > 0) refuse("num_experts", text.num_experts, "mixtures of experts are not supported for Qwen3.5");
  if (text.linear_num_value_heads % text.linear_num_key_heads !== 0) {
    refuse(
      "linear_num_value_heads",
      text.linear_num_value_heads,
      `it has to be a multiple of linear_num_key_heads (${text.linear_num_key_heads})`,
    );
  }
  return text;
}

/** Rotary settings, with the number of features of a head that they turn. */
export function partialRope(config: Qwen35Config, { head_dim: headDim }: HeadSizes): FlatConfig {
  const key = config.rope_parameters === undefined ? "rope_scaling" : "rope_parameters";
  const { partial_rotary_factor: ownFactor, ...parameters } = { partial_rotary_factor: undefined, ...config[key] };
  const factor = Number(ownFactor ?? config.partial_rotary_factor ?? 0.25);
  const rotaryDims = Math.trunc(headDim * factor);
  if (!(factor > 0 && factor <= 1) || rotaryDims < 2 || rotaryDims % 2 !== 0) {
    refuse("partial_rotary_factor", factor, `it has to leave an even number of each head's ${headDim} features`);
  }
  return { ...ropeConfig({ ...config, [key]: parameters, partial_rotary_factor: undefined }), rotary_dims: rotaryDims };
}

/** Gated attention: a query head's rows are its query, then its gate. */
export function gatedAttentionTensors(layer: string, config: Qwen35Config, heads: HeadSizes): ExpectedTensor[] {
  const { hidden_size: hidden, num_attention_heads: numHeads } = config;
  const attention = `${layer}.self_attn`;
  const kvWidth = heads.num_key_value_heads * heads.head_dim;
  return [
    ...linear(`${attention}.q_proj`, [2 * numHeads * heads.head_dim, hidden]),
    ...linear(`${attention}.k_proj`, [kvWidth, hidden]),
    ...linear(`${attention}.v_proj`, [kvWidth, hidden]),
    ...linear(`${attention}.o_proj`, [hidden, numHeads * heads.head_dim]),
    norm(`${attention}.q_norm`, heads.head_dim),
    norm(`${attention}.k_norm`, heads.head_dim),
  ];
}

/** Hugging Face's layout, a converted one, and that of checkpoints without vision: prefixes of the layers and of the head. */
const LAYOUTS = [["model.language_model.", ""], ["language_model.model.", "language_model."], ["model.", ""]] as const;

function resolveQwen35(config: Qwen35Config, hasTensor: (name: string) => boolean): ResolvedModel {
  const heads = headSizes(config);
  const [prefix, headPrefix] = LAYOUTS.find(([prefix]) => hasTensor(`${prefix}embed_tokens.weight`)) ?? LAYOUTS[0];
  const isTied = config.tie_word_embeddings ?? !hasTensor(`${headPrefix}lm_head.weight`);
  const types = layerTypes(config);
  const embedding = [config.vocab_size, config.hidden_size];
  const tensors = [
    ...linear(`${prefix}embed_tokens`, embedding),
    ...types.flatMap((type, i) => layerTensors(`${prefix}layers.${i}`, type, config, heads)),
    norm(`${prefix}norm`, config.hidden_size),
    ...(isTied ? [] : linear(`${headPrefix}lm_head`, embedding)),
  ];
  const flat = {
    ...decoderConfig("qwen3_5", config, heads, isTied),
    ...partialRope(config, heads),
    layer_types: types.join(","),
    linear_num_key_heads: config.linear_num_key_heads,
    linear_num_value_heads: config.linear_num_value_heads,
    linear_key_head_dim: config.linear_key_head_dim,
    linear_value_head_dim: config.linear_value_head_dim,
    linear_conv_kernel_dim: config.linear_conv_kernel_dim,
  };
  return resolvedModel(config, flat, tensors);
}

function layerTypes(config: Qwen35Config): string[] {
  const { num_hidden_layers: numLayers, full_attention_interval: interval } = config;
  const isFull = (layer: number): boolean => (layer + 1) % interval === 0;
  const types = config.layer_types ?? Array.from({ length: numLayers }, (_, i) => isFull(i) ? "full_attention" : "linear_attention");
  const wrong = types.find((type) => type !== "full_attention" && type !== "linear_attention");
  if (wrong !== undefined) refuse("layer_types", wrong, "supported are full_attention, linear_attention");
  if (types.length !== numLayers) refuse("layer_types", types, `it needs one entry for each of the ${numLayers} layers`);
  return types;
}

function layerTensors(layer: string, type: string, config: Qwen35Config, heads: HeadSizes): ExpectedTensor[] {
  const mixer = type === "full_attention" ? gatedAttentionTensors(layer, config, heads) : deltaNetTensors(`${layer}.linear_attn`, config);
  return [...blockNorms(layer, config), ...mixer, ...mlpTensors(layer, config)];
}

function deltaNetTensors(module: string, config: Qwen35Config): ExpectedTensor[] {
  const { hidden_size: hidden, linear_num_value_heads: numValueHeads, linear_value_head_dim: valueDim, linear_conv_kernel_dim: taps } =
    config;
  const valueWidth = numValueHeads * valueDim;
  const channels = 2 * config.linear_num_key_heads * config.linear_key_head_dim + valueWidth;
  return [
    ...linear(`${module}.in_proj_qkv`, [channels, hidden]),
    ...linear(`${module}.in_proj_z`, [valueWidth, hidden]),
    ...linear(`${module}.in_proj_b`, [numValueHeads, hidden]),
    ...linear(`${module}.in_proj_a`, [numValueHeads, hidden]),
    { name: `${module}.conv1d.weight`, shape: [channels, 1, taps], otherShape: [channels, taps, 1] },
    { name: `${module}.A_log`, shape: [numValueHeads] },
    { name: `${module}.dt_bias`, shape: [numValueHeads] },
    norm(`${module}.norm`, valueDim),
    ...linear(`${module}.out_proj`, [hidden, valueWidth]),
  ];
}
