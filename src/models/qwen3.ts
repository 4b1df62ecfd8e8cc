/** Qwen3: Llama's layers with norms on the queries and keys of each head. */
import { z } from "zod";
import type { Architecture, ResolvedModel } from "./architecture.ts";
import { headSizes, maybe, parseConfig, transformerShape } from "./config_parts.ts";
import {
  attentionTensors,
  blockNorms,
  checkActivation,
  decoderConfig,
  decoderTensors,
  isTied,
  mlpTensors,
  resolvedModel,
} from "./decoder_parts.ts";
import { ggufTransformerConfig, ggufTransformerTensorName } from "./gguf_transformer.ts";
import { qwenWindow, qwenWindowShape } from "./qwen_window.ts";
import { ropeConfig } from "./rope_config.ts";

const schema = z.looseObject({ ...transformerShape, ...qwenWindowShape, attention_bias: maybe(z.boolean()) });

type Qwen3Config = z.infer<typeof schema>;

export const qwen3: Architecture = {
  modelTypes: ["qwen3"],
  ggufArchitectures: ["qwen3"],
  configFromGguf: (file) => ggufTransformerConfig(file),
  tensorNameFromGguf: (name) => ggufTransformerTensorName(name),
  resolve: (config, hasTensor) => resolveQwen3(parseConfig(schema, config), hasTensor),
};

function resolveQwen3(config: Qwen3Config, hasTensor: (name: string) => boolean): ResolvedModel {
  checkActivation(config.hidden_act, "silu");
  const heads = headSizes(config);
  const tied = isTied(config, hasTensor);
  const hasBias = config.attention_bias ?? false;
  const tensors = decoderTensors(config, tied, (layer) => [
    ...blockNorms(layer, config),
    ...attentionTensors(layer, config, heads, { hasQkvBias: hasBias, hasOutputBias: hasBias, hasQkNorm: true }),
    ...mlpTensors(layer, config),
  ]);
  const flat = { ...decoderConfig("qwen3", config, heads, tied), attention_bias: hasBias, ...ropeConfig(config), ...qwenWindow(config) };
  return resolvedModel(config, flat, tensors);
}
