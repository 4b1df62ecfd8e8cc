/** The Llama family: Llama 1 to 3, SmolLM, TinyLlama and all that share their layers. */
import { z } from "zod";
import type { Architecture, ExpectedTensor, ResolvedModel } from "./architecture.ts";
import { attentionWindow, type HeadSizes, headSizes, maybe, parseConfig, refuse, ropeConfig, transformerShape } from "./config_parts.ts";
import { ggufTransformerConfig, ggufTransformerTensorName } from "./gguf_transformer.ts";
import { QuantizationPlan } from "./quantization.ts";

const schema = z.looseObject({
  ...transformerShape,
  attention_bias: maybe(z.boolean()),
  mlp_bias: maybe(z.boolean()),
  /** Set by `configFromGguf`: rows of q and k are ordered for interleaved rotary positions. */
  qk_interleaved: z.boolean().default(false),
});

export type LlamaConfig = z.infer<typeof schema>;

export const llama: Architecture = {
  modelTypes: ["llama"],
  ggufArchitectures: ["llama"],
  configFromGguf: (file) => ({ ...ggufTransformerConfig(file), qk_interleaved: true }),
  tensorNameFromGguf: ggufTransformerTensorName,
  resolve: (config, hasTensor) => resolveLlama(parseConfig(schema, config), hasTensor),
};

export function resolveLlama(config: LlamaConfig, hasTensor: (name: string) => boolean): ResolvedModel {
  const activation = config.hidden_act ?? "silu";
  if (activation !== "silu") refuse("hidden_act", activation, "only silu is supported");
  const heads = headSizes(config);
  // Without the key, a checkpoint that has no head of its own means the embedding.
  const isTied = config.tie_word_embeddings ?? !hasTensor("lm_head.weight");
  const tensors = expectedTensors(config, heads, isTied);
  const modules = tensors.filter((tensor) => tensor.isQuantizable).map((tensor) => tensor.name.replace(/\.weight$/, ""));
  return {
    config: {
      model_type: "llama",
      vocab_size: config.vocab_size,
      hidden_size: config.hidden_size,
      intermediate_size: config.intermediate_size,
      num_hidden_layers: config.num_hidden_layers,
      num_attention_heads: config.num_attention_heads,
      ...heads,
      rms_norm_eps: config.rms_norm_eps,
      tie_word_embeddings: isTied,
      attention_bias: config.attention_bias ?? false,
      mlp_bias: config.mlp_bias ?? false,
      max_position_embeddings: config.max_position_embeddings,
      qk_interleaved: config.qk_interleaved,
      ...ropeConfig(config),
      ...attentionWindow(config),
      ...QuantizationPlan.read(config).flatConfig(modules),
    },
    tensors,
  };
}

function expectedTensors(config: LlamaConfig, heads: HeadSizes, isTied: boolean): ExpectedTensor[] {
  const { hidden_size: hidden, vocab_size: vocab } = config;
  const embedding = { name: "model.embed_tokens.weight", shape: [vocab, hidden], isQuantizable: true };
  return [
    embedding,
    ...Array.from({ length: config.num_hidden_layers }, (_, i) => layerTensors(`model.layers.${i}`, config, heads)).flat(),
    { name: "model.norm.weight", shape: [hidden] },
    ...(isTied ? [] : [{ ...embedding, name: "lm_head.weight" }]),
    // GGUF files carry Llama 3's rotary scaling as one factor for each frequency.
    { name: "rope_freqs.weight", shape: [heads.head_dim / 2], isOptional: true },
  ];
}

function layerTensors(layer: string, config: LlamaConfig, heads: HeadSizes): ExpectedTensor[] {
  const { hidden_size: hidden, intermediate_size: intermediate } = config;
  const queryWidth = config.num_attention_heads * heads.head_dim;
  const kvWidth = heads.num_key_value_heads * heads.head_dim;
  const linear = (module: string, out: number, width: number, hasBias: boolean | undefined): ExpectedTensor[] => [
    { name: `${layer}.${module}.weight`, shape: [out, width], isQuantizable: true },
    ...(hasBias ? [{ name: `${layer}.${module}.bias`, shape: [out] }] : []),
  ];
  return [
    { name: `${layer}.input_layernorm.weight`, shape: [hidden] },
    ...linear("self_attn.q_proj", queryWidth, hidden, config.attention_bias),
    ...linear("self_attn.k_proj", kvWidth, hidden, config.attention_bias),
    ...linear("self_attn.v_proj", kvWidth, hidden, config.attention_bias),
    ...linear("self_attn.o_proj", hidden, queryWidth, config.attention_bias),
    { name: `${layer}.post_attention_layernorm.weight`, shape: [hidden] },
    ...linear("mlp.gate_proj", intermediate, hidden, config.mlp_bias),
    ...linear("mlp.up_proj", intermediate, hidden, config.mlp_bias),
    ...linear("mlp.down_proj", hidden, intermediate, config.mlp_bias),
  ];
}
