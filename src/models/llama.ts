/** The Llama family: Llama 1 to 3, SmolLM, TinyLlama and all that share their layers. */
import { z } from "zod";
import type { Architecture, ResolvedModel } from "./architecture.ts";
import { attentionWindow, headSizes, maybe, parseConfig, transformerShape } from "./config_parts.ts";
import {
  attentionTensors,
  blockNorms,
  checkActivation,
  decoderConfig,
  decoderTensors,
  isTied,
  mlpTensors,
  resolvedModel,
  ropeFactors,
} from "./decoder_parts.ts";
import { ggufTransformerConfig, ggufTransformerTensorName } from "./gguf_transformer.ts";
import { ropeConfig } from "./rope_config.ts";

const schema = z.looseObject({
  ...transformerShape,
  attention_bias: maybe(z.boolean()),
  mlp_bias: maybe(z.boolean()),
  /** Set by `configFromGguf`: rows of q and k are ordered for interleaved rotary positions. */
  qk_interleaved: z.boolean().default(false),
});

type LlamaConfig = z.infer<typeof schema>;

export const llama: Architecture = {
  modelTypes: ["llama"],
  ggufArchitectures: ["llama"],
  configFromGguf: (file) => ({ ...ggufTransformerConfig(file), qk_interleaved: true }),
  tensorNameFromGguf: ggufTransformerTensorName,
  resolve: (config, hasTensor) => resolveLlama(parseConfig(schema, config), hasTensor),
};

function resolveLlama(config: LlamaConfig, hasTensor: (name: string) => boolean): ResolvedModel {
  checkActivation(config.hidden_act, "silu");
  const heads = headSizes(config);
  const tied = isTied(config, hasTensor);
  const attentionBias = config.attention_bias ?? false;
  const mlpBias = config.mlp_bias ?? false;
  const layers = decoderTensors(config, tied, (layer) => [
    ...blockNorms(layer, config),
    ...attentionTensors(layer, config, heads, { hasQkvBias: attentionBias, hasOutputBias: attentionBias }),
    ...mlpTensors(layer, config, mlpBias),
  ]);
  const flat = {
    ...decoderConfig("llama", config, heads, tied),
    attention_bias: attentionBias,
    mlp_bias: mlpBias,
    qk_interleaved: config.qk_interleaved,
    ...ropeConfig(config),
    ...attentionWindow(config),
  };
  return resolvedModel(config, flat, [...layers, ropeFactors(heads)]);
}
