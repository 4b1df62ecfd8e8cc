/** MLX's affine quantization, as config.json describes it. */
import { z } from "zod";
import type { FlatConfig } from "./architecture.ts";
import { parseConfig, refuse, type TransformerShape } from "./config_parts.ts";

export interface Quantization {
  /** 0: not quantized. */
  readonly bits: number;
  /** Neighbouring weights that share a scale and a bias. */
  readonly groupSize: number;
}

const BITS = [2, 3, 4, 5, 6, 8];
const GROUP_SIZES = [32, 64, 128];
const DENSE: Quantization = { bits: 0, groupSize: 0 };

const settings = z.looseObject({ bits: z.int(), group_size: z.int(), mode: z.string().nullish() });

function readSettings(key: string, value: unknown): Quantization {
  const { bits, group_size, mode } = parseConfig(settings, value);
  if ((mode ?? "affine") !== "affine") refuse(`${key}.mode`, mode, "only affine is supported");
  if (!BITS.includes(bits)) refuse(`${key}.bits`, bits, `supported are ${BITS.join(", ")}`);
  if (!GROUP_SIZES.includes(group_size)) refuse(`${key}.group_size`, group_size, `supported are ${GROUP_SIZES.join(", ")}`);
  return { bits, groupSize: group_size };
}

/** Quantization of every module: a default and overrides by module name (`model.embed_tokens`). */
export class QuantizationPlan {
  readonly #standard: Quantization;
  readonly #overrides: ReadonlyMap<string, Quantization>;

  private constructor(standard: Quantization, overrides: ReadonlyMap<string, Quantization>) {
    this.#standard = standard;
    this.#overrides = overrides;
  }

  /** MLX writes the same settings under two keys; the second one belongs to other formats too, which are refused by name. */
  static read(config: TransformerShape): QuantizationPlan {
    const key = config.quantization === undefined ? "quantization_config" : "quantization";
    const value = config[key];
    if (value === undefined) return new QuantizationPlan(DENSE, new Map());
    if (value["quant_method"] !== undefined) {
      refuse(`${key}.quant_method`, value["quant_method"], "only MLX's affine quantization is supported");
    }
    const overrides = new Map<string, Quantization>();
    for (const [name, override] of Object.entries(value)) {
      if (override === false) overrides.set(name, DENSE);
      else if (typeof override === "object" && override !== null) overrides.set(name, readSettings(`${key}.${name}`, override));
    }
    return new QuantizationPlan(readSettings(key, value), overrides);
  }

  of(module: string): Quantization {
    return this.#overrides.get(module) ?? this.#standard;
  }

  /** `modules` are those that the model has; overrides of others are left out. */
  flatConfig(modules: Iterable<string>): FlatConfig {
    const flat: Record<string, string | number> = { quant_bits: this.#standard.bits, quant_group_size: this.#standard.groupSize };
    for (const module of modules) {
      const override = this.#overrides.get(module);
      if (override !== undefined) flat[`quant.${module}`] = `${override.bits},${override.groupSize}`;
    }
    return flat;
  }
}
