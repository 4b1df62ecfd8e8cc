/** Checkpoints of models that also see pictures: their text model is served, the tensors of the rest are left alone. */
import { z } from "zod";
import type { Architecture } from "./architecture.ts";
import { maybe, parseConfig, refuse } from "./config_parts.ts";

/** Two layouts, the second one of newer versions of Hugging Face's library; the head lies beside the text model. */
const PREFIXES: readonly (readonly [stored: string, own: string])[] = [
  ["language_model.model.", "model."],
  ["language_model.lm_head.", "lm_head."],
  ["model.language_model.", "model."],
  ["lm_head.", "lm_head."],
];

/** The text part of a model of type `modelType`, whose `text_config` is one of `architecture`. */
export function textPart(modelType: string, architecture: Architecture): Architecture {
  return {
    ...architecture,
    modelTypes: [modelType],
    ggufArchitectures: [],
    tensorNameFromFolder: textName,
    resolve: (config, hasTensor) => architecture.resolve(textConfig(config, architecture), hasTensor),
  };
}

function textName(name: string): string | null {
  const found = PREFIXES.find(([stored]) => name.startsWith(stored));
  return found === undefined ? null : found[1] + name.slice(found[0].length);
}

const schema = z.looseObject({
  text_config: z.looseObject({ model_type: maybe(z.string()) }),
  quantization: maybe(z.looseObject({})),
  quantization_config: maybe(z.looseObject({})),
  tie_word_embeddings: maybe(z.boolean()),
});

/** What the whole checkpoint is given once holds for its text part too. */
function textConfig(config: unknown, { modelTypes }: Architecture): Record<string, unknown> {
  const whole = parseConfig(schema, config);
  const { text_config: text } = whole;
  if (text.model_type !== undefined && !modelTypes.includes(text.model_type)) {
    refuse("text_config.model_type", text.model_type, `supported are ${modelTypes.join(", ")}`);
  }
  const shared: Record<string, unknown> = {};
  if (whole.tie_word_embeddings !== undefined) shared["tie_word_embeddings"] = whole.tie_word_embeddings;
  for (const key of ["quantization", "quantization_config"] as const) {
    if (whole[key] !== undefined) shared[key] = renameModules(whole[key]);
  }
  return { ...text, ...shared };
}

/** Settings of single modules stand beside those of all, by the modules' names. */
function renameModules(quantization: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(quantization).map(([key, value]) => [textName(`${key}.`)?.slice(0, -1) ?? key, value]));
}
