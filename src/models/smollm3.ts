/** SmolLM3: Llama's layers, some of them without positions. */
import { z } from "zod";
import type { Architecture, ResolvedModel } from "./architecture.ts";
import { attentionWindow, headSizes, maybe, parseConfig, refuse, size, transformerShape } from "./config_parts.ts";
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
  /** One entry a layer; 0 is a layer without rotary positions. */
  no_rope_layers: maybe(z.array(z.union([z.literal(0), z.literal(1)]))),
  no_rope_layer_interval: size.default(4),
  /** Set by `configFromGguf`: rows of q and k are ordered for interleaved rotary positions. */
  qk_interleaved: z.boolean().default(false),
});

type SmolLm3Config = z.infer<typeof schema>;

export const smolLm3: Architecture = {
  modelTypes: ["smollm3"],
  ggufArchitectures: ["smollm3"],
  configFromGguf: (file) => ({ ...ggufTransformerConfig(file), qk_interleaved: true }),
  tensorNameFromGguf: (name) => ggufTransformerTensorName(name),
  resolve: (config, hasTensor) => resolveSmolLm3(parseConfig(schema, config), hasTensor),
};

function ropeLayers(config: SmolLm3Config): string {
  const numLayers = config.num_hidden_layers;
  const layers = config.no_rope_layers ??
    Array.from({ length: numLayers }, (_, i) => Number((i + 1) % config.no_rope_layer_interval !== 0));
  if (layers.length !== numLayers) refuse("no_rope_layers", layers, `it needs one entry for each of the ${numLayers} layers`);
  return layers.join(",");
}

function resolveSmolLm3(config: SmolLm3Config, hasTensor: (name: string) => boolean): ResolvedModel {
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
    ...decoderConfig("smollm3", config, heads, tied),
    attention_bias: attentionBias,
    mlp_bias: mlpBias,
    qk_interleaved: config.qk_interleaved,
    no_rope_layers: ropeLayers(config),
    ...ropeConfig(config),
    ...attentionWindow(config),
  };
  return resolvedModel(config, flat, [...layers, ropeFactors(heads)]);
}
