/** A GGUF file, or one in several parts: weights, vocabulary and chat template in one. */
import type { TensorEntry } from "../native/model_spec.ts";
import { tokenizerFromGguf } from "../tokenizer/gguf_vocabulary.ts";
import { HfTokenizer } from "../tokenizer/hf_tokenizer.ts";
import { JinjaTemplate } from "../tokenizer/jinja_template.ts";
import type { Checkpoint } from "./checkpoint.ts";
import type { GgufFile } from "./gguf.ts";
import type { GgufMetadata } from "./gguf_metadata.ts";
import { readGgufModel } from "./gguf_parts.ts";
import { architectureOfGguf } from "./registry.ts";

/** @throws {ModelFileError} */
export function readGgufCheckpoint(path: string): Checkpoint {
  const file = readGgufModel(path);
  const { metadata } = file;
  const architecture = architectureOfGguf(metadata.string("general.architecture"));
  const tensors = renameTensors(file, (name) => architecture.tensorNameFromGguf(name));
  const tokenizer = readTokenizer(metadata);
  return {
    modelType: architecture.modelTypes[0]!,
    resolved: architecture.resolve(architecture.configFromGguf(file), (name) => tensors.has(name)),
    tensors,
    tokenizer,
    chatTemplate: readTemplate(metadata, tokenizer),
    declaredStopIds: ["eos", "eot", "eom"].map((name) => metadata.number(`tokenizer.ggml.${name}_token_id`)),
    generationDefaults: {},
  };
}

function renameTensors(file: GgufFile, rename: (name: string) => string | null): Map<string, TensorEntry> {
  const tensors = new Map<string, TensorEntry>();
  for (const tensor of file.tensors) {
    const name = rename(tensor.name);
    if (name !== null) tensors.set(name, { ...tensor, name });
  }
  return tensors;
}

function readTokenizer(metadata: GgufMetadata): HfTokenizer | null {
  const model = metadata.string("tokenizer.ggml.model");
  if (model === undefined || model === "none" || model === "no_vocab") return null;
  const { tokenizerJson, tokenizerConfig, segmentPrefix } = tokenizerFromGguf(metadata);
  return new HfTokenizer(tokenizerJson, tokenizerConfig, { segmentPrefix });
}

function readTemplate(metadata: GgufMetadata, tokenizer: HfTokenizer | null): JinjaTemplate | null {
  const source = metadata.string("tokenizer.chat_template");
  if (source === undefined || tokenizer === null) return null;
  const specialTokens: Record<string, string> = {};
  for (const [name, id] of [["bos_token", tokenizer.bosId], ["eos_token", tokenizer.eosId]] as const) {
    if (id !== null) specialTokens[name] = tokenizer.decode([id], { keepSpecial: true });
  }
  return new JinjaTemplate(source, { specialTokens });
}
