/**
 * Qwen3.5, text: layers with a recurrent state (gated delta nets), every few of them one of gated attention with rotary positions on a part of
 * each head. The MoE models have a mixture of experts in place of every MLP. Vision and MTP tensors of the checkpoint are not part of the text model.
 */
import { z } from "zod";
import type { Architecture, ExpectedTensor, FlatConfig, ResolvedModel } from "./architecture.ts";
import { type HeadSizes, headSizes, maybe, parseConfig, refuse, size, transformerShape } from "./config_parts.ts";
import { blockNorms, checkActivation, decoderConfig, linear, mlpTensors, norm, resolvedModel } from "./decoder_parts.ts";
import { qwen35ConfigFromGguf, qwen35TensorNameFromGguf } from "./qwen3_5_gguf.ts";
import { mixtureFlatConfig, mixtureShape, mixtureSizes, mixtureTensors } from "./qwen3_5_mixture.ts";
import { ropeConfig } from "./rope_config.ts";

const schema = z.looseObject({
  ...transformerShape,
  ...mixtureShape,
  /** Missing where there are experts. */
  intermediate_size: maybe(size),
  linear_num_key_heads: size,
  linear_num_value_heads: size,
  linear_key_head_dim: size,
  linear_value_head_dim: size,
  linear_conv_kernel_dim: z.int().min(2).max(64),
  full_attention_interval: size.default(4),
  attn_output_gate: z.boolean().default(true),
  attention_bias: maybe(z.boolean()),
  mtp_num_hidden_layers: maybe(z.int().min(0).max(16)),
  mtp_use_dedicated_embeddings: maybe(z.boolean()),
  /** Set by `configFromGguf`: norms and decay rates are stored as they are used, value heads in another order. */
  is_gguf: z.boolean().default(false),
});

export type Qwen35Config = z.infer<typeof schema> & { readonly intermediate_size: number };

export const qwen35: Architecture = {
  modelTypes: ["qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"],
  ggufArchitectures: ["qwen35", "qwen35moe"],
  configFromGguf: qwen35ConfigFromGguf,
  tensorNameFromGguf: qwen35TensorNameFromGguf,
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
  if (text.linear_num_value_heads % text.linear_num_key_heads !== 0) {
    refuse(
      "linear_num_value_heads",
      text.linear_num_value_heads,
      `it has to be a multiple of linear_num_key_heads (${text.linear_num_key_heads})`,
    );
  }
  const width = text.intermediate_size ?? mixtureSizes(text)?.width;
  return { ...text, intermediate_size: width ?? refuse("intermediate_size", width, "models without experts need it") };
}

/** A quarter of each head turns when the config does not say. */
export function partialRope(config: Qwen35Config): FlatConfig {
  return ropeConfig(config, { rotaryFactor: 0.25 });
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
  const mixture = mixtureSizes(config);
  const mlp = (layer: string): ExpectedTensor[] =>
    mixture === null ? mlpTensors(layer, config) : mixtureTensors(`${layer}.mlp`, config.hidden_size, mixture, hasTensor);
  const layerTensors = (layer: string, type: string): ExpectedTensor[] => [
    ...blockNorms(layer, config),
    ...(type === "full_attention" ? gatedAttentionTensors(layer, config, heads) : deltaNetTensors(`${layer}.linear_attn`, config)),
    ...mlp(layer),
  ];
  const embedding = [config.vocab_size, config.hidden_size];
  const tensors = [
    ...linear(`${prefix}embed_tokens`, embedding),
    ...types.flatMap((type, i) => layerTensors(`${prefix}layers.${i}`, type)),
    norm(`${prefix}norm`, config.hidden_size),
    ...(isTied ? [] : linear(`${headPrefix}lm_head`, embedding)),
  ];
  const flat = {
    ...decoderConfig("qwen3_5", config, heads, isTied),
    ...partialRope(config),
    ...(mixture === null ? {} : mixtureFlatConfig(mixture)),
    is_gguf: config.is_gguf,
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
    config.is_gguf
      ? { name: `${module}.conv1d.weight`, shape: [channels, taps] }
      : { name: `${module}.conv1d.weight`, shape: [channels, 1, taps], otherShape: [channels, taps, 1] },
    { name: `${module}.A_log`, shape: [numValueHeads] },
    { name: `${module}.dt_bias`, shape: [numValueHeads] },
    norm(`${module}.norm`, valueDim),
    ...linear(`${module}.out_proj`, [hidden, valueWidth]),
  ];
}
