/** Rotary positions: the settings of a config.json as the native library reads them. */
import { z } from "zod";
import type { FlatConfig } from "./architecture.ts";
import { headSizes, maybe, parseConfig, positive, refuse, size, type TransformerShape } from "./config_parts.ts";

const ropeScaling = z.looseObject({
  type: maybe(z.string()),
  rope_type: maybe(z.string()),
  factor: maybe(positive),
  low_freq_factor: positive.default(1),
  high_freq_factor: positive.default(4),
  original_max_position_embeddings: maybe(size),
  rope_theta: maybe(positive),
  partial_rotary_factor: maybe(z.number()),
  attention_factor: maybe(positive),
  mscale: maybe(z.number()),
  mscale_all_dim: maybe(z.number()),
  beta_fast: maybe(positive),
  beta_slow: maybe(positive),
  truncate: maybe(z.boolean()),
  short_factor: maybe(z.array(positive)),
  long_factor: maybe(z.array(positive)),
  /** Set for GGUF files: the factors of longrope are tensors. */
  has_factor_tensors: z.boolean().default(false),
});

type RopeScaling = z.infer<typeof ropeScaling>;

const ROPE_TYPES = ["default", "llama3", "linear", "dynamic", "yarn", "longrope"] as const;
type RopeType = (typeof ROPE_TYPES)[number];

const DEFAULT_ROPE_THETA = 10_000;
const YARN = { beta_fast: 32, beta_slow: 1 };

export interface RopeOptions {
  /** The part of each head that turns when the config does not say. Without the option, heads have to turn as a whole. */
  readonly rotaryFactor?: number;
}

/** Older configs have `rope_theta` and `rope_scaling`, newer ones everything in `rope_parameters`. */
export function ropeConfig(config: TransformerShape, options: RopeOptions = {}): FlatConfig {
  const key = config.rope_parameters === undefined ? "rope_scaling" : "rope_parameters";
  const scaling = parseConfig(ropeScaling, config[key] ?? {});
  const type = ropeType(key, scaling);
  const original = config.original_max_position_embeddings ?? scaling.original_max_position_embeddings ?? config.max_position_embeddings;
  const flat = {
    rope_theta: scaling.rope_theta ?? config.rope_theta ?? DEFAULT_ROPE_THETA,
    rope_type: type,
    rope_factor: scaling.factor ?? 1,
    rope_low_freq_factor: scaling.low_freq_factor,
    rope_high_freq_factor: scaling.high_freq_factor,
    rope_original_max_position_embeddings: original,
  };
  const rotaryDims = numRotaryDims(config, scaling, options);
  const partial = options.rotaryFactor === undefined ? {} : { rotary_dims: rotaryDims };
  const ratio = scaling.factor ?? config.max_position_embeddings / original;
  switch (type) {
    case "llama3":
      checkLlama3(key, scaling);
      return { ...flat, ...partial };
    case "yarn":
      return { ...flat, ...partial, ...yarnConfig(scaling, ratio), ...longerContext(config, original * ratio) };
    case "longrope":
      return { ...flat, ...partial, ...longropeConfig(key, scaling, ratio, original, rotaryDims) };
    case "dynamic":
      return { ...flat, ...partial, ...dynamicConfig(config, flat.rope_factor) };
    default:
      return { ...flat, ...partial };
  }
}

/** Early Phi-3 configs call longrope "su", and some "yarn", with longrope's factors. */
function ropeType(key: string, { rope_type, type, long_factor }: RopeScaling): RopeType {
  const name = rope_type ?? type ?? "default";
  if (name === "su" || (name === "yarn" && long_factor !== undefined)) return "longrope";
  const found = ROPE_TYPES.find((known) => known === name);
  return found ?? refuse(`${key}.rope_type`, name, `supported are ${ROPE_TYPES.join(", ")}`);
}

/** Features of a head that turn: an even number of them, from its start. */
function numRotaryDims(config: TransformerShape, scaling: RopeScaling, { rotaryFactor }: RopeOptions): number {
  const headDim = headSizes(config).head_dim;
  const factor = scaling.partial_rotary_factor ?? config.partial_rotary_factor ?? rotaryFactor ?? 1;
  if (rotaryFactor === undefined && factor !== 1) refuse("partial_rotary_factor", factor, "only 1 is supported");
  // Factors of GGUF files are quotients: their product with the size may miss the number it came from by a rounding.
  const rotaryDims = Math.trunc(headDim * factor + 1e-6);
  if (!(factor > 0 && factor <= 1) || rotaryDims < 2 || rotaryDims % 2 !== 0) {
    refuse("partial_rotary_factor", factor, `it has to leave an even number of each head's ${headDim} features`);
  }
  return rotaryDims;
}

function checkLlama3(key: string, { low_freq_factor: low, high_freq_factor: high }: RopeScaling): void {
  if (low >= high) refuse(`${key}.low_freq_factor`, low, `it has to be below high_freq_factor (${high})`);
}

/** What a scaling makes possible counts, where the config tells the length before it. */
function longerContext(config: TransformerShape, maxContext: number): FlatConfig {
  return { max_position_embeddings: Math.max(config.max_position_embeddings, Math.floor(maxContext)) };
}

/** The training's context is the one that the config names: there is no other key for it. */
function dynamicConfig(config: TransformerShape, factor: number): FlatConfig {
  const { max_position_embeddings: original } = config;
  return { rope_original_max_position_embeddings: original, ...longerContext(config, original * factor) };
}

function yarnConfig(scaling: RopeScaling, factor: number): FlatConfig {
  const { attention_factor, mscale, mscale_all_dim, beta_fast, beta_slow, truncate } = scaling;
  const magnitude = (scale = 1): number => factor <= 1 ? 1 : 0.1 * scale * Math.log(factor) + 1;
  const isSplit = Boolean(mscale) && Boolean(mscale_all_dim);
  return {
    rope_factor: factor,
    rope_beta_fast: beta_fast ?? YARN.beta_fast,
    rope_beta_slow: beta_slow ?? YARN.beta_slow,
    rope_truncate: truncate ?? true,
    rope_attention_factor: attention_factor ?? (isSplit ? magnitude(mscale) / magnitude(mscale_all_dim) : magnitude()),
  };
}

function longropeConfig(key: string, scaling: RopeScaling, factor: number, original: number, rotaryDims: number): FlatConfig {
  const attentionFactor = scaling.attention_factor ?? (factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(original)));
  const flat = { rope_attention_factor: attentionFactor };
  if (scaling.has_factor_tensors) return flat;
  const list = (name: "short_factor" | "long_factor"): string => {
    const factors = scaling[name];
    if (factors?.length === rotaryDims / 2) return factors.join(",");
    return refuse(`${key}.${name}`, factors, `longrope needs a list of ${rotaryDims / 2} numbers, one for each pair of turning features`);
  };
  return { ...flat, rope_short_factors: list("short_factor"), rope_long_factors: list("long_factor") };
}
