/** Parts of the flat config and of the tensor list that decoder-only transformers share. */
import type { ExpectedTensor, FlatConfig, ResolvedModel } from "./architecture.ts";
import { type HeadSizes, refuse, type TransformerShape } from "./config_parts.ts";
import { QuantizationPlan } from "./quantization.ts";

/** Keys that every decoder of the native library reads. */
export function decoderConfig(modelType: string, config: TransformerShape, heads: HeadSizes, isTied: boolean): FlatConfig {
  return {
    model_type: modelType,
    vocab_size: config.vocab_size,
    hidden_size: config.hidden_size,
    intermediate_size: config.intermediate_size,
    num_hidden_layers: config.num_hidden_layers,
    num_attention_heads: config.num_attention_heads,
    ...heads,
    rms_norm_eps: config.rms_norm_eps,
    tie_word_embeddings: isTied,
    max_position_embeddings: config.max_position_embeddings,
  };
}

/** Puts config and tensors together, with the quantization of those modules that the tensors name. */
export function resolvedModel(config: TransformerShape, flat: FlatConfig, tensors: readonly ExpectedTensor[]): ResolvedModel {
  const modules = tensors.filter((tensor) => tensor.isQuantizable).map((tensor) => tensor.name.replace(/\.weight$/, ""));
  return { config: { ...flat, ...QuantizationPlan.read(config).flatConfig(modules) }, tensors };
}

/** Without the key, a checkpoint that has no head of its own means the embedding. */
export function isTied(config: TransformerShape, hasTensor: (name: string) => boolean): boolean {
  return config.tie_word_embeddings ?? !hasTensor("lm_head.weight");
}

export function checkActivation(found: string | undefined, wanted: string): void {
  if (found !== undefined && found !== wanted) refuse("hidden_act", found, `only ${wanted} is supported`);
}

export function norm(name: string, size: number): ExpectedTensor {
  return { name: `${name}.weight`, shape: [size] };
}

/** A matrix [out, width], or a stack of them, and its bias. */
export function linear(module: string, shape: readonly number[], hasBias = false): ExpectedTensor[] {
  const weight = { name: `${module}.weight`, shape, isQuantizable: true };
  return hasBias ? [weight, { name: `${module}.bias`, shape: [shape[0]!] }] : [weight];
}

export interface AttentionParts {
  readonly hasQkvBias?: boolean | undefined;
  readonly hasOutputBias?: boolean | undefined;
  /** Norms on the queries and keys of each head. */
  readonly hasQkNorm?: boolean;
}

export function attentionTensors(layer: string, config: TransformerShape, heads: HeadSizes, parts: AttentionParts = {}): ExpectedTensor[] {
  const { hidden_size: hidden } = config;
  const queryWidth = config.num_attention_heads * heads.head_dim;
  const kvWidth = heads.num_key_value_heads * heads.head_dim;
  const attention = `${layer}.self_attn`;
  return [
    ...linear(`${attention}.q_proj`, [queryWidth, hidden], parts.hasQkvBias),
    ...linear(`${attention}.k_proj`, [kvWidth, hidden], parts.hasQkvBias),
    ...linear(`${attention}.v_proj`, [kvWidth, hidden], parts.hasQkvBias),
    ...linear(`${attention}.o_proj`, [hidden, queryWidth], parts.hasOutputBias),
    ...(parts.hasQkNorm ? [norm(`${attention}.q_norm`, heads.head_dim), norm(`${attention}.k_norm`, heads.head_dim)] : []),
  ];
}

export function mlpTensors(
  layer: string,
  { hidden_size: hidden, intermediate_size: intermediate }: TransformerShape,
  hasBias = false,
): ExpectedTensor[] {
  return [
    ...linear(`${layer}.mlp.gate_proj`, [intermediate, hidden], hasBias),
    ...linear(`${layer}.mlp.up_proj`, [intermediate, hidden], hasBias),
    ...linear(`${layer}.mlp.down_proj`, [hidden, intermediate], hasBias),
  ];
}

/** Embedding, layers, final norm and head. `layerTensors` gets the layer's prefix (`model.layers.3`) and number. */
export function decoderTensors(
  config: TransformerShape,
  isTied: boolean,
  layerTensors: (layer: string, index: number) => ExpectedTensor[],
): ExpectedTensor[] {
  const { hidden_size: hidden, vocab_size: vocab } = config;
  return [
    ...linear("model.embed_tokens", [vocab, hidden]),
    ...Array.from({ length: config.num_hidden_layers }, (_, i) => layerTensors(`model.layers.${i}`, i)).flat(),
    norm("model.norm", hidden),
    ...(isTied ? [] : linear("lm_head", [vocab, hidden])),
  ];
}

/** Norms before attention and before the MLP, as most decoders name them. */
export function blockNorms(layer: string, { hidden_size: hidden }: TransformerShape): ExpectedTensor[] {
  return [norm(`${layer}.input_layernorm`, hidden), norm(`${layer}.post_attention_layernorm`, hidden)];
}

/** GGUF files carry Llama 3's rotary scaling as one factor for each frequency. */
export function ropeFactors(heads: HeadSizes): ExpectedTensor {
  return { name: "rope_freqs.weight", shape: [heads.head_dim / 2], isOptional: true };
}

/** A config whose window holds for the layers that `isSliding` tells. */
export function withWindow<T extends TransformerShape>(config: T, isSliding: (layer: number) => boolean): T {
  const types = Array.from({ length: config.num_hidden_layers }, (_, i) => isSliding(i) ? "sliding_attention" : "full_attention");
  return { ...config, layer_types: types };
}
