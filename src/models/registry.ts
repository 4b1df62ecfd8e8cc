/** Which file of this folder knows which architecture. */
import type { Architecture } from "./architecture.ts";
import { ModelFileError } from "./model_file_error.ts";
import { llama } from "./llama.ts";
import { mistral } from "./mistral.ts";

const ARCHITECTURES: readonly Architecture[] = [llama, mistral];

export const SUPPORTED_MODEL_TYPES: readonly string[] = ARCHITECTURES.flatMap((architecture) => architecture.modelTypes);

/** @throws {ModelFileError} for a `model_type` that is not supported. */
export function architectureOfModelType(modelType: unknown): Architecture {
  return find("model_type", modelType, (architecture) => architecture.modelTypes);
}

/** @throws {ModelFileError} for a GGUF `general.architecture` that is not supported. */
export function architectureOfGguf(name: unknown): Architecture {
  return find("general.architecture", name, (architecture) => architecture.ggufArchitectures);
}

function find(key: string, name: unknown, namesOf: (architecture: Architecture) => readonly string[]): Architecture {
  const found = ARCHITECTURES.find((architecture) => typeof name === "string" && namesOf(architecture).includes(name));
  if (found !== undefined) return found;
  const names = ARCHITECTURES.flatMap(namesOf).join(", ");
  throw new ModelFileError(`Unsupported ${key}: ${JSON.stringify(name)?.slice(0, 80) ?? "missing"}; supported are ${names}`);
}
