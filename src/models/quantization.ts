/** MLX's quantizations, as config.json describes them. */
import { z } from "zod";
import type { FlatConfig } from "./architecture.ts";
import { parseConfig, refuse, type TransformerShape } from "./config_parts.ts";

export interface Quantization {
  /** 0: not quantized. */
  readonly bits: number;
  /** Neighbouring weights that share a scale. */
  readonly groupSize: number;
  /** affine: integers with scales and biases; mxfp4: 4-bit floats with 8-bit exponents as scales. */
  readonly mode: "affine" | "mxfp4";
}

const BITS = [2, 3, 4, 5, 6, 8];
const GROUP_SIZES = [32, 64, 128];
const DENSE: Quantization = { bits: 0, groupSize: 0, mode: "affine" };
const MXFP4: Quantization = { bits: 4, groupSize: 32, mode: "mxfp4" };

const settings = z.looseObject({ bits: z.int(), group_size: z.int(), mode: z.string().nullish() });
const mxfp4Settings = settings.partial({ bits: true, group_size: true });

function readSettings(key: string, value: unknown): Quantization {
  const { mode } = parseConfig(mxfp4Settings, value);
  if (mode === "mxfp4") return readMxfp4(key, value);
  if ((mode ?? "affine") !== "affine") refuse(`${key}.mode`, mode, "supported are affine, mxfp4");
  const { bits, group_size } = parseConfig(settings, value);
  if (!BITS.includes(bits)) refuse(`${key}.bits`, bits, `supported are ${BITS.join(", ")}`);
  if (!GROUP_SIZES.includes(group_size)) refuse(`${key}.group_size`, group_size, `supported are ${GROUP_SIZES.join(", ")}`);
  return { bits, groupSize: group_size, mode: "affine" };
}

function readMxfp4(key: string, value: unknown): Quantization {
  const { bits, group_size } = parseConfig(mxfp4Settings, value);
  if ((bits ?? 4) !== 4) refuse(`${key}.bits`, bits, "mxfp4 has 4");
  if ((group_size ?? 32) !== 32) refuse(`${key}.group_size`, group_size, "mxfp4 has 32");
  return MXFP4;
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
      refuse(`${key}.quant_method`, value["quant_method"], "only MLX's quantizations are supported");
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
    const { bits, groupSize, mode } = this.#standard;
    const flat: Record<string, string | number> = { quant_bits: bits, quant_group_size: groupSize };
    if (mode !== "affine") flat["quant_mode"] = mode;
    for (const module of modules) {
      const override = this.#overrides.get(module);
      if (override !== undefined) flat[`quant.${module}`] = describe(override);
    }
    return flat;
  }
}

/** `8,64`, or `4,32,mxfp4`. */
function describe({ bits, groupSize, mode }: Quantization): string {
  return mode === "affine" ? `${bits},${groupSize}` : `${bits},${groupSize},${mode}`;
}

/** The quantization of a module by the flat config. */
export function quantizationOf(config: FlatConfig, module: string): Quantization {
  const own = config[`quant.${module}`];
  const standard = `${config["quant_bits"]},${config["quant_group_size"]},${config["quant_mode"] ?? "affine"}`;
  const [bits, groupSize, mode] = String(own ?? standard).split(",");
  return { bits: Number(bits), groupSize: Number(groupSize), mode: mode === "mxfp4" ? "mxfp4" : "affine" };
}
