/** EAGLE-3 heads, as Speculators and as SGLang write them. */
import { z } from "zod";
import type { ExpectedTensor } from "./architecture.ts";
import { headSizes, maybe, parseConfig, size, transformerShape } from "./config_parts.ts";
import { attentionTensors, checkActivation, decoderConfig, linear, mlpTensors, norm, resolvedModel } from "./decoder_parts.ts";
import { checkFits, checkLayers, type ResolvedDrafter, type TargetShape } from "./drafter.ts";
import { ropeConfig } from "./rope_config.ts";

const layerIds = maybe(z.array(z.int()).max(64));

/** Around the layer; Speculators keeps the layer's own sizes in `transformer_layer_config`, SGLang beside the other keys. */
const schema = z.looseObject({
  transformer_layer_config: maybe(z.looseObject({})),
  draft_vocab_size: maybe(size),
  target_hidden_size: maybe(size),
  norm_before_residual: z.boolean().default(false),
  norm_before_fc: z.boolean().default(false),
  /** Counts the outputs of the model's layers from 1. */
  eagle_aux_hidden_state_layer_ids: layerIds,
  /** SGLang's place for the same, counting from 0. */
  eagle_config: maybe(z.looseObject({ eagle_aux_hidden_state_layer_ids: layerIds })),
  speculators_config: maybe(z.looseObject({ proposal_methods: maybe(z.array(z.looseObject({ speculative_tokens: maybe(size) }))) })),
});

const layerSchema = z.looseObject({ ...transformerShape, attention_bias: maybe(z.boolean()) });

type LayerConfig = z.infer<typeof layerSchema>;

const DEFAULT_DRAFT_TOKENS = 3;

export function resolveEagle3(config: unknown, hasTensor: (name: string) => boolean, target: TargetShape): ResolvedDrafter {
  const head = parseConfig(schema, config);
  const layer = parseConfig(layerSchema, head.transformer_layer_config ?? config);
  checkActivation(layer.hidden_act, "silu");
  checkFits("target_hidden_size", head.target_hidden_size, target.hiddenSize);
  checkFits("vocab_size", layer.vocab_size, target.vocabSize);
  const layers = capturedLayers(head, target);
  const heads = headSizes(layer);
  const draftVocabSize = head.draft_vocab_size ?? layer.vocab_size;
  const flat = {
    ...decoderConfig("eagle3", layer, heads, false),
    ...ropeConfig(layer),
    attention_bias: layer.attention_bias ?? false,
    drafter_kind: "eagle3",
    num_features: layers.length,
    draft_vocab_size: draftVocabSize,
    norm_before_residual: head.norm_before_residual,
    norm_before_fc: head.norm_before_fc,
  };
  const featureWidth = layers.length * target.hiddenSize;
  const tensors = [
    ...linear("fc", [layer.hidden_size, featureWidth]),
    ...(head.norm_before_fc ? [norm("input_norm", featureWidth)] : []),
    ...layerTensors(layer, hasTensor("midlayer.hidden_norm.weight") ? "midlayer" : "layers.0"),
    norm("norm", layer.hidden_size),
    ...vocabularyTensors(layer, draftVocabSize, target, hasTensor),
  ];
  const numDraftTokens = head.speculators_config?.proposal_methods?.[0]?.speculative_tokens ?? DEFAULT_DRAFT_TOKENS;
  return { kind: "eagle3", capture: { kind: "layers", layers }, numDraftTokens, maskTokenId: null, ...resolvedModel(layer, flat, tensors) };
}

/** Without the key: an early, a middle and a late layer of the model, as the paper has it. */
function capturedLayers(head: z.infer<typeof schema>, target: TargetShape): number[] {
  const fromZero = head.eagle_config?.eagle_aux_hidden_state_layer_ids;
  const fromOne = head.eagle_aux_hidden_state_layer_ids ?? [2, Math.trunc(target.numLayers / 2), target.numLayers - 3];
  const layers = fromZero ?? fromOne.map((id) => id - 1);
  checkLayers("eagle_aux_hidden_state_layer_ids", layers, target);
  return layers;
}

/** The first layer attends over [embedding ‖ hidden state]. */
function layerTensors(config: LayerConfig, first: string): ExpectedTensor[] {
  const heads = headSizes(config);
  const hasBias = config.attention_bias ?? false;
  const names = Array.from({ length: config.num_hidden_layers }, (_, i) => i === 0 ? first : `layers.${i}`);
  const isWide = (name: string): boolean => /^self_attn\.[qkv]_proj\.weight$/.test(name);
  return [
    norm(`${first}.hidden_norm`, config.hidden_size),
    ...names.flatMap((layer, i) => [
      norm(`${layer}.input_layernorm`, config.hidden_size),
      norm(`${layer}.post_attention_layernorm`, config.hidden_size),
      ...attentionTensors(layer, config, heads, { hasQkvBias: hasBias, hasOutputBias: hasBias }).map((tensor) =>
        i === 0 && isWide(tensor.name.slice(layer.length + 1)) ? { ...tensor, shape: [tensor.shape[0]!, 2 * config.hidden_size] } : tensor
      ),
      ...mlpTensors(layer, config),
    ]),
  ];
}

/** A head over the model's whole vocabulary may be the model's own, and so may an embedding of the same width. */
function vocabularyTensors(
  config: LayerConfig,
  draftVocabSize: number,
  target: TargetShape,
  hasTensor: (name: string) => boolean,
): ExpectedTensor[] {
  const isOwnWidth = config.hidden_size !== target.hiddenSize;
  const isOwnHead = isOwnWidth || draftVocabSize !== target.vocabSize || hasTensor("lm_head.weight");
  return [
    ...(isOwnWidth ? linear("embed_tokens", [target.vocabSize, config.hidden_size]) : []),
    ...(isOwnHead ? linear("lm_head", [draftVocabSize, config.hidden_size]) : []),
    { name: "d2t", shape: [draftVocabSize], types: ["I64", "I32"], isOptional: draftVocabSize === target.vocabSize },
  ];
}
