/** The mixture of experts of Qwen3.5-MoE, in place of every MLP: routed experts, and one that every token takes. */
import { z } from "zod";
import type { ExpectedTensor, FlatConfig } from "./architecture.ts";
import { maybe, refuse, size } from "./config_parts.ts";
import { linear } from "./decoder_parts.ts";

export const mixtureShape = {
  num_experts: maybe(z.int().min(0)),
  num_experts_per_tok: maybe(size),
  moe_intermediate_size: maybe(size),
  shared_expert_intermediate_size: maybe(size),
};

export type MixtureConfig = z.infer<z.ZodObject<typeof mixtureShape>>;

export interface MixtureSizes {
  readonly numExperts: number;
  readonly numChosen: number;
  readonly width: number;
  readonly sharedWidth: number;
}

/** null for models without experts. */
export function mixtureSizes(config: MixtureConfig): MixtureSizes | null {
  const { num_experts: numExperts = 0 } = config;
  if (numExperts === 0) return null;
  const required = (key: keyof MixtureConfig): number => config[key] ?? refuse(key, config[key], "models with experts need it");
  const numChosen = required("num_experts_per_tok");
  if (numChosen > numExperts) refuse("num_experts_per_tok", numChosen, `there are ${numExperts} experts`);
  return {
    numExperts,
    numChosen,
    width: required("moe_intermediate_size"),
    sharedWidth: required("shared_expert_intermediate_size"),
  };
}

export function mixtureFlatConfig(sizes: MixtureSizes): FlatConfig {
  return {
    num_experts: sizes.numExperts,
    num_experts_per_tok: sizes.numChosen,
    moe_intermediate_size: sizes.width,
    shared_expert_intermediate_size: sizes.sharedWidth,
  };
}

export function mixtureTensors(mlp: string, hidden: number, sizes: MixtureSizes, hasTensor: (name: string) => boolean): ExpectedTensor[] {
  const { sharedWidth, numExperts } = sizes;
  // Some GGUF files have the shared expert's gate as a vector.
  const [sharedGate] = linear(`${mlp}.shared_expert_gate`, [1, hidden]);
  return [
    ...linear(`${mlp}.gate`, [numExperts, hidden]),
    ...expertTensors(mlp, hidden, sizes, hasTensor),
    ...linear(`${mlp}.shared_expert.gate_proj`, [sharedWidth, hidden]),
    ...linear(`${mlp}.shared_expert.up_proj`, [sharedWidth, hidden]),
    ...linear(`${mlp}.shared_expert.down_proj`, [hidden, sharedWidth]),
    { ...sharedGate!, storedShape: [hidden] },
  ];
}

/** Stacked: Hugging Face's layout has gate and up in one tensor, converted ones apart, and GGUF files either way. Or one of each expert. */
function expertTensors(mlp: string, hidden: number, sizes: MixtureSizes, hasTensor: (name: string) => boolean): ExpectedTensor[] {
  const { numExperts, width } = sizes;
  const stacked = `${mlp}.switch_mlp`;
  const [gate, up, down] = [[width, hidden], [width, hidden], [hidden, width]] as const;
  if (hasTensor(`${mlp}.experts.gate_up_proj`)) {
    return [
      { name: `${stacked}.gate_up_proj.weight`, storedName: `${mlp}.experts.gate_up_proj`, shape: [numExperts, 2 * width, hidden] },
      { name: `${stacked}.down_proj.weight`, storedName: `${mlp}.experts.down_proj`, shape: [numExperts, ...down] },
    ];
  }
  if (hasTensor(`${stacked}.gate_up_proj.weight`)) {
    return [
      ...linear(`${stacked}.gate_up_proj`, [numExperts, 2 * width, hidden]),
      ...linear(`${stacked}.down_proj`, [numExperts, ...down]),
    ];
  }
  const projections = Object.entries({ gate_proj: gate, up_proj: up, down_proj: down });
  if (!hasTensor(`${mlp}.experts.0.gate_proj.weight`)) {
    return projections.flatMap(([name, shape]) => linear(`${stacked}.${name}`, [numExperts, ...shape]));
  }
  return projections.flatMap(([name, shape]) =>
    Array.from({ length: numExperts }, (_, i) => linear(`${mlp}.experts.${i}.${name}`, shape)).flat()
  );
}
