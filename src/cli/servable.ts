/** Whether a model on this machine could be served, told from its headers alone. */
import { readGgufModel } from "../models/gguf_parts.ts";
import { ModelFileError } from "../models/model_file_error.ts";
import { architectureOfGguf, architectureOfModelType } from "../models/registry.ts";
import { readJsonFile } from "../models/text_file.ts";

export interface Servable {
  readonly isServable: boolean;
  /** Its kind, else why not. */
  readonly text: string;
}

/** @param path a folder or a `.gguf` file. */
export function describeServable(path: string): Servable {
  try {
    return { isServable: true, text: path.endsWith(".gguf") ? describeGguf(path) : describeFolder(path) };
  } catch (error) {
    if (!(error instanceof ModelFileError)) throw error;
    return { isServable: false, text: error.message };
  }
}

function describeGguf(path: string): string {
  const architecture = readGgufModel(path).metadata.string("general.architecture");
  architectureOfGguf(architecture);
  return `${architecture}, GGUF`;
}

function describeFolder(path: string): string {
  const modelType = readJsonFile(`${path}/config.json`)?.["model_type"];
  architectureOfModelType(modelType);
  return `${modelType}, safetensors`;
}
