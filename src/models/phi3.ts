/** Phi-3 and Phi-4: Llama's layers, stored with fused projections. */
import { z } from "zod";
import type { Architecture, ResolvedModel } from "./architecture.ts";
import { attentionWindow, headSizes, parseConfig, transformerShape } from "./config_parts.ts";
import { blockNorms, checkActivation, decoderConfig, decoderTensors, isTied, linear, resolvedModel, withWindow } from "./decoder_parts.ts";
import type { GgufFile } from "./gguf.ts";
import { ggufTransformerConfig, ggufTransformerTensorName } from "./gguf_transformer.ts";
import { ropeConfig } from "./rope_config.ts";

const schema = z.looseObject(transformerShape);

type Phi3Config = z.infer<typeof schema>;

const GGUF_NAMES = { attn_qkv: "self_attn.qkv_proj", ffn_up: "mlp.gate_up_proj" };

export const phi3: Architecture = {
  modelTypes: ["phi3"],
  ggufArchitectures: ["phi3"],
  configFromGguf,
  tensorNameFromGguf: (name) => ggufTransformerTensorName(name, GGUF_NAMES),
  resolve: (config, hasTensor) => resolvePhi3(parseConfig(schema, config), hasTensor),
};

function configFromGguf(file: GgufFile): Record<string, unknown> {
  return {
    ...ggufTransformerConfig(file, { hasPartialRope: true }),
    sliding_window: file.metadata.number("phi3.attention.sliding_window") || null,
  };
}

function resolvePhi3(config: Phi3Config, hasTensor: (name: string) => boolean): ResolvedModel {
  checkActivation(config.hidden_act, "silu");
  const heads = headSizes(config);
  const tied = isTied(config, hasTensor);
  const queryWidth = config.num_attention_heads * heads.head_dim;
  const fusedWidth = queryWidth + 2 * heads.num_key_value_heads * heads.head_dim;
  const { hidden_size: hidden, intermediate_size: intermediate } = config;
  const tensors = decoderTensors(config, tied, (layer) => [
    ...blockNorms(layer, config),
    ...linear(`${layer}.self_attn.qkv_proj`, [fusedWidth, hidden]),
    ...linear(`${layer}.self_attn.o_proj`, [hidden, queryWidth]),
    ...linear(`${layer}.mlp.gate_up_proj`, [2 * intermediate, hidden]),
    ...linear(`${layer}.mlp.down_proj`, [hidden, intermediate]),
  ]);
  const windowed = config.sliding_window === undefined ? config : withWindow(config, () => true);
  // Phi-4-mini turns three quarters of each head.
  const rope = ropeConfig(config, { rotaryFactor: 1 });
  const factors = ["short", "long"].map((name) => ({
    name: `rope_factors_${name}.weight`,
    shape: [Number(rope["rotary_dims"]) / 2],
    isOptional: config.rope_scaling?.["has_factor_tensors"] !== true,
  }));
  const flat = { ...decoderConfig("phi3", config, heads, tied), ...rope, ...attentionWindow(windowed) };
  return resolvedModel(config, flat, [...tensors, ...factors]);
}
