/** DFlash: drafts a whole block in one step, by block diffusion. */
import { z } from "zod";
import { attentionWindow, headSizes, maybe, parseConfig, refuse, size, transformerShape } from "./config_parts.ts";
import { attentionTensors, blockNorms, checkActivation, decoderConfig, linear, mlpTensors, norm, resolvedModel } from "./decoder_parts.ts";
import { checkFits, checkLayers, type ResolvedDrafter, type TargetShape } from "./drafter.ts";
import { ropeConfig } from "./rope_config.ts";

const tokenId = z.int().min(0);
const own = { mask_token_id: maybe(tokenId), target_layer_ids: maybe(z.array(z.int()).max(64)) };

const schema = z.looseObject({
  ...transformerShape,
  ...own,
  attention_bias: maybe(z.boolean()),
  block_size: z.int().min(2).max(64).default(16),
  num_target_layers: maybe(size),
  final_logit_softcapping: maybe(z.number()),
  dflash_config: maybe(z.looseObject(own)),
});

export function resolveDflash(config: unknown, hasTensor: (name: string) => boolean, target: TargetShape): ResolvedDrafter {
  const drafter = parseConfig(schema, config);
  checkActivation(drafter.hidden_act, "silu");
  checkFits("hidden_size", drafter.hidden_size, target.hiddenSize);
  checkFits("vocab_size", drafter.vocab_size, target.vocabSize);
  checkFits("num_target_layers", drafter.num_target_layers, target.numLayers);
  if (drafter.final_logit_softcapping !== undefined) {
    refuse("final_logit_softcapping", drafter.final_logit_softcapping, "only null is supported");
  }
  const layers = drafter.dflash_config?.target_layer_ids ?? drafter.target_layer_ids ?? [];
  checkLayers("target_layer_ids", layers, target);
  const maskTokenId = drafter.dflash_config?.mask_token_id ?? drafter.mask_token_id;
  if (maskTokenId === undefined || maskTokenId >= target.vocabSize) {
    refuse("mask_token_id", maskTokenId, `it has to be a token of the model, 0 … ${target.vocabSize - 1}`);
  }
  const heads = headSizes(drafter);
  const hasBias = drafter.attention_bias ?? false;
  const prefix = hasTensor("model.fc.weight") ? "model." : "";
  const tensors = [
    ...linear(`${prefix}fc`, [drafter.hidden_size, layers.length * target.hiddenSize]),
    norm(`${prefix}hidden_norm`, drafter.hidden_size),
    norm(`${prefix}norm`, drafter.hidden_size),
    ...Array.from({ length: drafter.num_hidden_layers }, (_, i) => `${prefix}layers.${i}`).flatMap((layer) => [
      ...blockNorms(layer, drafter),
      ...attentionTensors(layer, drafter, heads, { hasQkvBias: hasBias, hasOutputBias: hasBias, hasQkNorm: true }),
      ...mlpTensors(layer, drafter),
    ]),
  ];
  const flat = {
    ...decoderConfig("dflash", drafter, heads, true),
    ...ropeConfig(drafter),
    ...attentionWindow(drafter),
    attention_bias: hasBias,
    drafter_kind: "dflash",
    num_features: layers.length,
  };
  const use = { kind: "dflash", capture: { kind: "layers", layers }, numDraftTokens: drafter.block_size - 1, maskTokenId } as const;
  return { ...use, ...resolvedModel(drafter, flat, tensors) };
}
