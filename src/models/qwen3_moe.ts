/** Qwen3-MoE: Qwen3's attention, and a mixture of experts in place of the MLP of most layers. */
import { z } from "zod";
import type { Architecture, ExpectedTensor, ResolvedModel } from "./architecture.ts";
import { headSizes, maybe, parseConfig, refuse, size, transformerShape } from "./config_parts.ts";
import {
  attentionTensors,
  blockNorms,
  checkActivation,
  decoderConfig,
  decoderTensors,
  isTied,
  linear,
  mlpTensors,
  resolvedModel,
} from "./decoder_parts.ts";
import type { GgufFile } from "./gguf.ts";
import { ggufTransformerConfig, ggufTransformerTensorName } from "./gguf_transformer.ts";
import { ropeConfig } from "./rope_config.ts";

const schema = z.looseObject({
  ...transformerShape,
  attention_bias: maybe(z.boolean()),
  use_sliding_window: maybe(z.boolean()),
  num_experts: size,
  num_experts_per_tok: size,
  moe_intermediate_size: size,
  norm_topk_prob: maybe(z.boolean()),
  /** Every how many layers there is a mixture. */
  decoder_sparse_step: size.default(1),
  /** Layers that have an MLP all the same. */
  mlp_only_layers: maybe(z.array(z.int().min(0))),
});

type Qwen3MoeConfig = z.infer<typeof schema>;

const GGUF_NAMES = {
  ffn_gate_inp: "mlp.gate",
  ffn_gate_exps: "mlp.switch_mlp.gate_proj",
  ffn_up_exps: "mlp.switch_mlp.up_proj",
  ffn_down_exps: "mlp.switch_mlp.down_proj",
};

export const qwen3Moe: Architecture = {
  modelTypes: ["qwen3_moe"],
  ggufArchitectures: ["qwen3moe"],
  configFromGguf,
  tensorNameFromGguf: (name) => ggufTransformerTensorName(name, GGUF_NAMES),
  resolve: (config, hasTensor) => resolveQwen3Moe(parseConfig(schema, config), hasTensor),
};

function configFromGguf(file: GgufFile): Record<string, unknown> {
  const number = (key: string): number => file.metadata.required(`qwen3moe.${key}`, file.metadata.number(`qwen3moe.${key}`));
  return {
    ...ggufTransformerConfig(file, { hasExperts: true }),
    num_experts: number("expert_count"),
    num_experts_per_tok: number("expert_used_count"),
    moe_intermediate_size: number("expert_feed_forward_length"),
    norm_topk_prob: true,
  };
}

function resolveQwen3Moe(config: Qwen3MoeConfig, hasTensor: (name: string) => boolean): ResolvedModel {
  checkActivation(config.hidden_act, "silu");
  if (config.use_sliding_window) refuse("use_sliding_window", true, "only false is supported");
  if (config.num_experts_per_tok > config.num_experts) {
    refuse("num_experts_per_tok", config.num_experts_per_tok, `there are ${config.num_experts} experts`);
  }
  const heads = headSizes(config);
  const tied = isTied(config, hasTensor);
  const hasBias = config.attention_bias ?? false;
  const isSparse = (layer: number): boolean => !config.mlp_only_layers?.includes(layer) && (layer + 1) % config.decoder_sparse_step === 0;
  const tensors = decoderTensors(config, tied, (layer, i) => [
    ...blockNorms(layer, config),
    ...attentionTensors(layer, config, heads, { hasQkvBias: hasBias, hasOutputBias: hasBias, hasQkNorm: true }),
    ...(isSparse(i) ? mixtureTensors(`${layer}.mlp`, config, hasTensor) : mlpTensors(layer, config)),
  ]);
  const flat = {
    ...decoderConfig("qwen3_moe", config, heads, tied),
    attention_bias: hasBias,
    num_experts: config.num_experts,
    num_experts_per_tok: config.num_experts_per_tok,
    moe_intermediate_size: config.moe_intermediate_size,
    norm_topk_prob: config.norm_topk_prob ?? false,
    sparse_layers: Array.from({ length: config.num_hidden_layers }, (_, i) => Number(isSparse(i))).join(","),
    ...ropeConfig(config),
  };
  return resolvedModel(config, flat, tensors);
}

/** Converted checkpoints stack all experts in one tensor, Hugging Face's have one of each expert. */
function mixtureTensors(mlp: string, config: Qwen3MoeConfig, hasTensor: (name: string) => boolean): ExpectedTensor[] {
  const { hidden_size: hidden, moe_intermediate_size: width, num_experts: numExperts } = config;
  const shapes = { gate_proj: [width, hidden], up_proj: [width, hidden], down_proj: [hidden, width] };
  const isStacked = hasTensor(`${mlp}.switch_mlp.gate_proj.weight`);
  const experts = Object.entries(shapes).flatMap(([name, shape]) =>
    isStacked
      ? linear(`${mlp}.switch_mlp.${name}`, [numExperts, ...shape])
      : Array.from({ length: numExperts }, (_, i) => linear(`${mlp}.experts.${i}.${name}`, shape)).flat()
  );
  return [...linear(`${mlp}.gate`, [numExperts, hidden]), ...experts];
}
