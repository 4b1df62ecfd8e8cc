/** Parts of config.json that many architectures share. */
import { z } from "zod";
import { ModelFileError } from "./model_file_error.ts";
import type { FlatConfig } from "./architecture.ts";

/** Far above any model; they keep a damaged config from asking for absurd tables. */
const MAX_SIZE = 1 << 24;
const MAX_LAYERS = 4096;

export const size = z.int().min(1).max(MAX_SIZE);
export const positive = z.number().positive().finite();

/** Configs write null for what they leave out. */
export function maybe<T extends z.ZodType>(schema: T): z.ZodType<z.output<T> | undefined> {
  return schema.nullish().transform((value) => value ?? undefined) as z.ZodType<z.output<T> | undefined>;
}

/** Keys of a decoder-only transformer with rotary positions, as Hugging Face writes them. */
export const transformerShape = {
  vocab_size: size,
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: z.int().min(1).max(MAX_LAYERS),
  num_attention_heads: size,
  num_key_value_heads: maybe(size),
  head_dim: maybe(size),
  rms_norm_eps: z.number().min(0).max(1).default(1e-6),
  rope_theta: maybe(positive),
  rope_scaling: maybe(z.looseObject({})),
  rope_parameters: maybe(z.looseObject({})),
  max_position_embeddings: z.int().min(1).max(2 ** 31 - 1),
  /** Of the training before a scaling of the rotary positions. */
  original_max_position_embeddings: maybe(size),
  tie_word_embeddings: maybe(z.boolean()),
  hidden_act: maybe(z.string()),
  partial_rotary_factor: maybe(z.number()),
  sliding_window: maybe(size),
  layer_types: maybe(z.array(z.string())),
  quantization: maybe(z.looseObject({})),
  quantization_config: maybe(z.looseObject({})),
};

export type TransformerShape = z.infer<z.ZodObject<typeof transformerShape>>;

/** @throws {ModelFileError} with the key, what was found and what is allowed. */
export function parseConfig<T>(schema: z.ZodType<T>, config: unknown): T {
  const result = schema.safeParse(config);
  if (result.success) return result.data;
  const issue = result.error.issues[0]!;
  const key = issue.path.map(String).join(".") || "config.json";
  const found = issue.path.reduce<unknown>((value, part) => (value as Record<PropertyKey, unknown> | undefined)?.[part], config);
  return refuse(key, found, issue.message);
}

export function refuse(key: string, found: unknown, wanted: string): never {
  throw new ModelFileError(`Cannot use the model's config: ${key} is ${JSON.stringify(found)?.slice(0, 120) ?? "missing"}: ${wanted}`);
}

export interface HeadSizes {
  readonly num_key_value_heads: number;
  readonly head_dim: number;
}

/** Key-value heads default to one for each query head, the head's size to its share of the hidden size. */
export function headSizes(config: TransformerShape): HeadSizes {
  const { hidden_size, num_attention_heads: numHeads } = config;
  const numKvHeads = config.num_key_value_heads ?? numHeads;
  if (numHeads % numKvHeads !== 0) refuse("num_key_value_heads", numKvHeads, `it has to divide num_attention_heads (${numHeads})`);
  if (config.head_dim === undefined && hidden_size % numHeads !== 0) {
    refuse("hidden_size", hidden_size, `without head_dim it has to be a multiple of num_attention_heads (${numHeads})`);
  }
  const headDim = config.head_dim ?? hidden_size / numHeads;
  if (headDim % 2 !== 0) refuse("head_dim", headDim, "rotary positions need an even size");
  return { num_key_value_heads: numKvHeads, head_dim: headDim };
}

const LAYER_TYPES = ["full_attention", "sliding_attention"];

/** `layer_types` is empty when all layers see everything. */
export function attentionWindow(config: TransformerShape): FlatConfig {
  const types = config.layer_types ?? [];
  const wrong = types.find((type) => !LAYER_TYPES.includes(type));
  if (wrong !== undefined) refuse("layer_types", wrong, `supported are ${LAYER_TYPES.join(", ")}`);
  if (types.length > 0 && types.length !== config.num_hidden_layers) {
    refuse("layer_types", types, `it needs one entry for each of the ${config.num_hidden_layers} layers`);
  }
  if (!types.includes("sliding_attention")) return { sliding_window: 0, layer_types: "" };
  if (config.sliding_window === undefined) {
    return refuse("sliding_window", config.sliding_window, "layer_types has sliding_attention, so it is needed");
  }
  return { sliding_window: config.sliding_window, layer_types: types.join(",") };
}
