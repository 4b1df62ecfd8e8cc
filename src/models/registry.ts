/**
 * Which file of this folder knows which architecture.
 *
 * To add one (model_type `newton`):
 *
 * 1. `ffi/src/models/newton.c`: load its weights and write its forward pass, one line an equation. Start from the file of the nearest relative
 *    (Llama's shape: `llama.c`, with `dense_decoder.h` for what is alike; mixtures of experts: `qwen3_moe.c`; layers that are not attention:
 *    `qwen3_5.c`). A token's result may depend on its own row only, never on its neighbours in the step. Name it in `model.h` and `model.c`.
 * 2. `newton.ts` here: a zod schema of config.json (what is not supported is refused by name), the flat config that the C file reads, and the
 *    tensors with their shapes, from `decoder_parts.ts` where they are the usual ones. GGUF files: the metadata and tensor names that differ
 *    from those in `gguf_transformer.ts`. Name it below.
 * 3. A line in `kinds` of `ffi/tests/tiny_decoders.h`: a tiny random checkpoint then has to give the same in batches, alone and in
 *    chunks, and to be refused when it is damaged.
 * 4. Golden values: `tests/fixtures/golden/newton/` with config.json, weights of some hundred kilobytes, and golden.json with the logits,
 *    arg-max at each position and greedy continuations that another implementation gives. `tests/models/golden_test.ts` runs every folder;
 *    `scripts/fixtures/write_golden_models.py` makes them with Hugging Face's transformers.
 *
 * Nothing else knows architectures: engine, server and cache ask the model for its sizes.
 */
import type { Architecture } from "./architecture.ts";
import { ModelFileError } from "./model_file_error.ts";
import { gemma3Text } from "./gemma3.ts";
import { llama } from "./llama.ts";
import { mistral } from "./mistral.ts";
import { textPart } from "./multimodal.ts";
import { phi3 } from "./phi3.ts";
import { qwen2 } from "./qwen2.ts";
import { qwen3 } from "./qwen3.ts";
import { qwen35 } from "./qwen3_5.ts";
import { qwen3Moe } from "./qwen3_moe.ts";
import { smolLm3 } from "./smollm3.ts";

const ARCHITECTURES: readonly Architecture[] = [
  gemma3Text,
  textPart("gemma3", gemma3Text),
  llama,
  mistral,
  textPart("mistral3", mistral),
  phi3,
  qwen2,
  qwen3,
  qwen35,
  qwen3Moe,
  smolLm3,
];

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
