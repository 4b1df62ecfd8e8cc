/** Qwen3.5's own head for the tokens after the next: `mtp.*` in its checkpoint, or split off into a folder, without the prefix. */
import { headSizes, refuse } from "./config_parts.ts";
import { blockNorms, decoderConfig, linear, mlpTensors, norm, resolvedModel } from "./decoder_parts.ts";
import { checkFits, refuseDrafter, type ResolvedDrafter, type TargetShape } from "./drafter.ts";
import { gatedAttentionTensors, partialRope, type Qwen35Config, readQwen35Config } from "./qwen3_5.ts";

/** Heads of MoE models have experts of their own. */
function hasMixture(config: Qwen35Config): boolean {
  return (config.num_experts ?? 0) > 0;
}

export function resolveMtp(config: unknown, hasTensor: (name: string) => boolean, target: TargetShape): ResolvedDrafter {
  const text = readQwen35Config(config);
  if (hasMixture(text)) refuse("num_experts", text.num_experts, "MTP heads with experts are not supported");
  if (target.modelType !== "qwen3_5") refuseDrafter("model_type", "qwen3_5", target.modelType);
  checkFits("hidden_size", text.hidden_size, target.hiddenSize);
  checkFits("vocab_size", text.vocab_size, target.vocabSize);
  if (text.mtp_use_dedicated_embeddings) refuse("mtp_use_dedicated_embeddings", true, "only false is supported");
  const numLayers = text.mtp_num_hidden_layers ?? 1;
  if (numLayers === 0) refuse("mtp_num_hidden_layers", 0, "the checkpoint has no MTP head");
  const heads = headSizes(text);
  const prefix = hasTensor("mtp.fc.weight") ? "mtp." : "";
  const tensors = [
    ...linear(`${prefix}fc`, [text.hidden_size, 2 * text.hidden_size]),
    ...["norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"].map((name) => norm(prefix + name, text.hidden_size)),
    ...Array.from({ length: numLayers }, (_, i) => `${prefix}layers.${i}`).flatMap((layer) => [
      ...blockNorms(layer, text),
      ...gatedAttentionTensors(layer, text, heads),
      ...mlpTensors(layer, text),
    ]),
  ];
  const flat = {
    ...decoderConfig("qwen3_5_mtp", text, heads, true),
    ...partialRope(text),
    drafter_kind: "mtp",
    num_hidden_layers: numLayers,
  };
  // A head of depth d was trained to draft d tokens; the first comes with no step of its own.
  const use = { kind: "mtp", capture: { kind: "final" }, numDraftTokens: numLayers + 1, maskTokenId: null } as const;
  return { ...use, ...resolvedModel(text, flat, tensors) };
}
