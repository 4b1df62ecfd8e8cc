/** A Hugging Face style folder: config.json, safetensors, and a tokenizer where there is one. */
import { JinjaTemplate } from "../tokenizer/jinja_template.ts";
import { HfTokenizer } from "../tokenizer/hf_tokenizer.ts";
import type { TensorEntry } from "../native/model_spec.ts";
import type { Architecture } from "./architecture.ts";
import type { Checkpoint } from "./checkpoint.ts";
import { ModelFileError } from "./model_file_error.ts";
import { architectureOfModelType } from "./registry.ts";
import { readFolderTensors } from "./safetensors_folder.ts";
import { readJsonFile, readTextFile } from "./text_file.ts";

const TOKENIZER_MEGABYTES = 256;
const TEMPLATE_MEGABYTES = 4;

/** @throws {ModelFileError} */
export function readFolderCheckpoint(folder: string): Checkpoint {
  const config = readJsonFile(`${folder}/config.json`) ?? failMissing(folder, "config.json");
  const architecture = architectureOfModelType(config["model_type"]);
  const generation = readJsonFile(`${folder}/generation_config.json`) ?? {};
  const tensors = renameTensors(readFolderTensors(folder), architecture);
  const tokenizerConfig = readJsonFile(`${folder}/tokenizer_config.json`) ?? {};
  return {
    modelType: String(config["model_type"]),
    resolved: architecture.resolve(config, (name) => tensors.has(name)),
    tensors,
    tokenizer: readTokenizer(folder, tokenizerConfig),
    chatTemplate: readTemplate(folder, tokenizerConfig),
    declaredStopIds: [config["eos_token_id"], textConfig(config)["eos_token_id"], generation["eos_token_id"]],
    generationDefaults: generationDefaults(generation),
  };
}

/** By the architecture's names; those that it does not use are left out. */
function renameTensors(tensors: ReadonlyMap<string, TensorEntry>, architecture: Architecture): ReadonlyMap<string, TensorEntry> {
  if (architecture.tensorNameFromFolder === undefined) return tensors;
  const renamed = new Map<string, TensorEntry>();
  for (const tensor of tensors.values()) {
    const name = architecture.tensorNameFromFolder(tensor.name);
    if (name !== null) renamed.set(name, { ...tensor, name });
  }
  return renamed;
}

/** Models that see pictures keep what belongs to the text apart. */
function textConfig(config: Record<string, unknown>): Record<string, unknown> {
  const text = config["text_config"];
  return typeof text === "object" && text !== null ? text as Record<string, unknown> : {};
}

function failMissing(folder: string, file: string): never {
  throw new ModelFileError(`Cannot use ${folder}: it has no ${file}`);
}

function readTokenizer(folder: string, tokenizerConfig: Record<string, unknown>): HfTokenizer | null {
  const json = readJsonFile(`${folder}/tokenizer.json`, TOKENIZER_MEGABYTES);
  return json === null ? null : new HfTokenizer(json, tokenizerConfig);
}

function readTemplate(folder: string, tokenizerConfig: Record<string, unknown>): JinjaTemplate | null {
  const source = readTextFile(`${folder}/chat_template.jinja`, TEMPLATE_MEGABYTES) ??
    defaultTemplate(readJsonFile(`${folder}/chat_template.json`)?.["chat_template"]) ??
    defaultTemplate(tokenizerConfig["chat_template"]);
  return source === null ? null : new JinjaTemplate(source, { specialTokens: namedTokens(tokenizerConfig) });
}

/** A template, or several with names, of which "default" is meant for chats. */
function defaultTemplate(value: unknown): string | null {
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) return null;
  const template: unknown = value.find((entry) => entry?.name === "default")?.template;
  return typeof template === "string" ? template : null;
}

/** `bos_token` and the like, which templates may write. */
function namedTokens(tokenizerConfig: Record<string, unknown>): Record<string, string> {
  const tokens: Record<string, string> = {};
  for (const [key, value] of Object.entries(tokenizerConfig)) {
    if (!/^[a-z]+_token$/.test(key)) continue;
    const content: unknown = typeof value === "object" ? (value as { content?: unknown } | null)?.content : value;
    if (typeof content === "string") tokens[key] = content;
  }
  return tokens;
}

function generationDefaults(generation: Record<string, unknown>): Record<string, number | boolean> {
  const isDefault = ([key, value]: [string, unknown]): boolean =>
    (typeof value === "boolean" || Number.isFinite(value)) && !key.endsWith("_token_id") && !key.startsWith("_");
  return Object.fromEntries(Object.entries(generation).filter(isDefault)) as Record<string, number | boolean>;
}
