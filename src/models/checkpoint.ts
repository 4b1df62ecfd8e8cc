import { basename, resolve } from "node:path";
import type { TensorEntry } from "../native/model_spec.ts";
import { type ChatTemplate, ChatTemplateError } from "../tokenizer/chat_template.ts";
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import { TokenizerError } from "../tokenizer/tokenizer_json.ts";
import type { ResolvedModel } from "./architecture.ts";
import { readFolderCheckpoint } from "./folder_checkpoint.ts";
import { readGgufCheckpoint } from "./gguf_checkpoint.ts";
import { ggufModelName } from "./gguf_parts.ts";
import type { LoadedModel } from "./loaded_model.ts";
import { ModelFileError } from "./model_file_error.ts";
import { collectStopIds } from "./stop_ids.ts";
import { selectTensors } from "./tensor_table.ts";

/** What a folder or a GGUF file holds, before its tensors are checked against the architecture. */
export interface Checkpoint {
  readonly modelType: string;
  readonly resolved: ResolvedModel;
  /** By the names that the architecture uses. */
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  readonly tokenizer: Tokenizer | null;
  readonly chatTemplate: ChatTemplate | null;
  readonly declaredStopIds: readonly unknown[];
  readonly generationDefaults: Readonly<Record<string, number | boolean>>;
}

export const COMPUTE_TYPES = ["auto", "float32", "float16", "bfloat16", "stored"] as const;

export interface LoadOptions {
  /** What the model computes in; "stored" leaves matrices as they are in the files, "auto" lets the native library choose for its device. */
  readonly dtype?: (typeof COMPUTE_TYPES)[number];
}

/**
 * Reads a checkpoint's headers, config and tokenizer: a folder with config.json and safetensors, or a `.gguf` file. Weights stay where they are.
 * @throws {ModelFileError} when something is missing, damaged or not supported; nothing native has seen the files then.
 */
export function loadModel(path: string, options: LoadOptions = {}): LoadedModel {
  const source = resolve(path);
  const isFolder = isDirectory(source);
  if (!isFolder && !source.endsWith(".gguf")) {
    throw new ModelFileError(`Cannot use ${path}: a model is a folder with config.json, or a file that ends in .gguf`);
  }
  const checkpoint = asModelFileErrors(source, () => isFolder ? readFolderCheckpoint(source) : readGgufCheckpoint(source));
  return {
    id: isFolder ? basename(source) : ggufModelName(source),
    path: source,
    ...assemble(checkpoint, source, options),
    modelType: checkpoint.modelType,
    tokenizer: checkpoint.tokenizer,
    chatTemplate: checkpoint.chatTemplate,
    generationDefaults: checkpoint.generationDefaults,
  };
}

function assemble(
  checkpoint: Checkpoint,
  source: string,
  options: LoadOptions,
): Pick<LoadedModel, "spec" | "vocabSize" | "maxContext" | "stopIds"> {
  const { resolved, tokenizer, chatTemplate } = checkpoint;
  const vocabSize = Number(resolved.config["vocab_size"]);
  return {
    spec: {
      config: { ...resolved.config, dtype: options.dtype ?? "auto" },
      tensors: selectTensors(resolved, checkpoint.tensors, source),
    },
    vocabSize,
    maxContext: Number(resolved.config["max_position_embeddings"]),
    stopIds: collectStopIds({
      declared: checkpoint.declaredStopIds,
      tokenizer,
      templateSource: chatTemplate?.source ?? null,
      vocabSize,
    }),
  };
}

function isDirectory(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) {
      throw new ModelFileError(
        `There is no file or folder ${path}; a model is a .gguf file, a folder with config.json, or org/name of the hub`,
      );
    }
    throw new ModelFileError(`Cannot open ${path}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

/** A tokenizer or template that cannot be used makes the model files unusable: one kind of error for the caller. */
function asModelFileErrors<T>(source: string, body: () => T): T {
  try {
    return body();
  } catch (error) {
    if (!(error instanceof TokenizerError) && !(error instanceof ChatTemplateError)) throw error;
    throw new ModelFileError(`Cannot use ${source}: ${error.message}`, { cause: error });
  }
}
