/** Qwen2 and Qwen2.5: Llama's layers with biases on queries, keys and values. */
import { z } from "zod";
import type { Architecture, ResolvedModel } from "./architecture.ts";
import { headSizes, parseConfig, transformerShape } from "./config_parts.ts";
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

const schema = z.looseObject({ ...transformerShape, ...qwenWindowShape });

type Qwen2Config = z.infer<typeof schema>;

export const qwen2: Architecture = {
  modelTypes: ["qwen2"],
  ggufArchitectures: ["qwen2"],
  configFromGguf: (file) => ggufTransformerConfig(file),
  tensorNameFromGguf: (name) => ggufTransformerTensorName(name),
  resolve: (config, hasTensor) => resolveQwen2(parseConfig(schema, config), hasTensor),
};

function resolveQwen2(config: Qwen2Config, hasTensor: (name: string) => boolean): ResolvedModel {
  checkActivation(config.hidden_act, "silu");
  const heads = headSizes(config);
  const tied = isTied(config, hasTensor);
  const tensors = decoderTensors(config, tied, (layer) => [
    ...blockNorms(layer, config),
    ...attentionTensors(layer, config, heads, { hasQkvBias: true }),
    ...mlpTensors(layer, config),
  ]);
  return resolvedModel(config, { ...decoderConfig("qwen2", config, heads, tied), ...ropeConfig(config), ...qwenWindow(config) }, tensors);
}
