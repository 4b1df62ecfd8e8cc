/** Gemma 3, text: norms on both sides of attention and MLP, a GELU gate, and mostly sliding-window layers with a rotary base of their own. */
import { z } from "zod";
import type { Architecture, ExpectedTensor, FlatConfig, ResolvedModel } from "./architecture.ts";
import { attentionWindow, headSizes, maybe, parseConfig, refuse, size, transformerShape } from "./config_parts.ts";
import {
  attentionTensors,
  checkActivation,
  decoderConfig,
  decoderTensors,
  isTied,
  mlpTensors,
  norm,
  resolvedModel,
  withWindow,
} from "./decoder_parts.ts";
import type { GgufFile } from "./gguf.ts";
import { ggufTransformerConfig, ggufTransformerTensorName } from "./gguf_transformer.ts";
import { ropeConfig } from "./rope_config.ts";

const positive = z.number().positive().finite();
const noCapping = maybe(z.number());
const ropeBase = z.looseObject({ rope_theta: positive });

/** Published configs leave out what equals these defaults. */
const schema = z.looseObject({
  ...transformerShape,
  vocab_size: size.default(262_208),
  num_attention_heads: size.default(8),
  num_key_value_heads: size.default(4),
  head_dim: size.default(256),
  max_position_embeddings: size.default(131_072),
  rope_theta: positive.default(1_000_000),
  rope_local_base_freq: positive.default(10_000),
  query_pre_attn_scalar: positive.default(256),
  /** Every so many layers, one sees everything. */
  sliding_window_pattern: size.default(6),
  sliding_window: size.default(4096),
  hidden_activation: maybe(z.string()),
  attn_logit_softcapping: noCapping,
  final_logit_softcapping: noCapping,
  /** Newer configs tell the rotary bases by layer type. */
  rope_parameters: maybe(z.looseObject({ full_attention: maybe(z.looseObject({})), sliding_attention: maybe(ropeBase) })),
  /** Set by `configFromGguf`, where norms are stored as they are: Hugging Face stores their distance from 1. */
  norm_offset: z.number().default(1),
});

type Gemma3Config = z.infer<typeof schema>;

const GGUF_NAMES = {
  post_attention_norm: "post_attention_layernorm",
  ffn_norm: "pre_feedforward_layernorm",
  post_ffw_norm: "post_feedforward_layernorm",
};

export const gemma3Text: Architecture = {
  modelTypes: ["gemma3_text"],
  ggufArchitectures: ["gemma3"],
  configFromGguf,
  tensorNameFromGguf: (name) => ggufTransformerTensorName(name, GGUF_NAMES),
  resolve: (config, hasTensor) => resolveGemma3(parseConfig(schema, config), hasTensor),
};

/** Of all sizes, only the 27B model scales attention by its hidden size and not by its heads' size. */
const NUM_LAYERS_OF_27B = 62;

function configFromGguf(file: GgufFile): Record<string, unknown> {
  const config = ggufTransformerConfig(file);
  const { num_hidden_layers: numLayers, hidden_size: hidden, num_attention_heads: numHeads, head_dim: headDim } = config;
  return {
    ...config,
    sliding_window: file.metadata.number("gemma3.attention.sliding_window"),
    sliding_window_pattern: file.metadata.number("gemma3.attention.sliding_window_pattern"),
    rope_local_base_freq: file.metadata.number("gemma3.rope.freq_base_swa"),
    query_pre_attn_scalar: numLayers === NUM_LAYERS_OF_27B ? Number(hidden) / Number(numHeads) : headDim,
    norm_offset: 0,
  };
}

/** Base and scaling of the layers that see everything, and the base of the others. */
function ropeBases(config: Gemma3Config): FlatConfig {
  const { full_attention: full, sliding_attention: sliding } = config.rope_parameters ?? {};
  const fullConfig = full === undefined && sliding === undefined ? config : { ...config, rope_parameters: full };
  return { ...ropeConfig(fullConfig), rope_local_base_freq: sliding?.rope_theta ?? config.rope_local_base_freq };
}

function resolveGemma3(config: Gemma3Config, hasTensor: (name: string) => boolean): ResolvedModel {
  checkActivation(config.hidden_activation ?? config.hidden_act, "gelu_pytorch_tanh");
  for (const key of ["attn_logit_softcapping", "final_logit_softcapping"] as const) {
    if (config[key] !== undefined) refuse(key, config[key], "capped logits are not supported");
  }
  const heads = headSizes(config);
  const tied = isTied(config, hasTensor);
  const isSliding = (layer: number): boolean => (layer + 1) % config.sliding_window_pattern !== 0;
  const tensors = decoderTensors(config, tied, (layer) => [
    ...norms(layer, config.hidden_size),
    ...attentionTensors(layer, config, heads, { hasQkNorm: true }),
    ...mlpTensors(layer, config),
  ]);
  const flat = {
    ...decoderConfig("gemma3_text", config, heads, tied),
    norm_offset: config.norm_offset,
    query_pre_attn_scalar: config.query_pre_attn_scalar,
    ...ropeBases(config),
    ...attentionWindow(config.layer_types === undefined ? withWindow(config, isSliding) : config),
  };
  return resolvedModel(config, flat, tensors);
}

function norms(layer: string, hidden: number): ExpectedTensor[] {
  const names = ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"];
  return names.map((name) => norm(`${layer}.${name}`, hidden));
}
