/** The least memory that serves a model, as far as its headers tell. */
import { stepCosts } from "../engine/step_memory.ts";
import { roundedCapacity } from "../engine/memory_budget.ts";
import { diskMemoryBytes } from "../engine/prefix_disk.ts";
import { EngineError } from "../engine/engine.ts";
import type { LoadedModel } from "../models/loaded_model.ts";
import { PROGRAM_BYTES } from "./allowed_memory.ts";
import { sizeText } from "./size_text.ts";

const FLOAT32_BYTES = 4;

export interface LeastMemory {
  readonly weightBytes: number;
  /** With the shortest of requests. */
  readonly leastBytes: number;
}

export interface MemoryPlan {
  readonly weightBytes: number;
  /** Computed in one step at most. */
  readonly numStepTokens: number;
  /** What models may take. */
  readonly memoryBytes: number;
  /** What the program takes beside models. @default the program alone */
  readonly programBytes?: number;
  /** Prefixes are kept on a disk, too. */
  readonly hasDisk: boolean;
}

/**
 * Refuses, before anything is loaded, a model whose weights and step leave no room for any request.
 * @throws {EngineError} `out_of_memory` with the least that works.
 */
export function checkMemory({ id, spec: { config } }: Pick<LoadedModel, "id" | "spec">, plan: MemoryPlan): void {
  const { weightBytes, numStepTokens, memoryBytes, programBytes, hasDisk } = plan;
  const { bytesPerToken, bytesPerPair } = stepCosts(config);
  const fixedBytes = weightBytes + numStepTokens * bytesPerToken;
  if (fixedBytes <= memoryBytes) return;
  // The engine knows it exactly, once the weights are loaded; this is no less.
  const kvBytes = kvBytesPerToken(config);
  const diskBytes = hasDisk ? diskMemoryBytes({ kvBytesPerToken: kvBytes }) : 0;
  const leastBytes = fixedBytes + diskBytes + roundedCapacity(1) * (kvBytes + numStepTokens * bytesPerPair);
  throw memoryShortage(id, { weightBytes, leastBytes }, memoryBytes, programBytes);
}

/** In words, with the `--memory` that would do. @param programBytes what the program takes beside models. */
export function memoryShortage(
  id: string,
  { weightBytes, leastBytes }: LeastMemory,
  memoryBytes: number,
  programBytes = PROGRAM_BYTES,
): EngineError {
  const least = (Math.ceil((leastBytes + programBytes) / 1e7) / 100).toFixed(2);
  return new EngineError(
    "out_of_memory",
    `${id} takes ${sizeText(weightBytes)} of weights, ${sizeText(leastBytes)} with the shortest of requests; memory allows ${
      sizeText(Math.max(0, memoryBytes))
    } for models: the least that works is --memory ${least}`,
  );
}

/** As if every layer kept float32 keys and values of its own. */
function kvBytesPerToken(config: Readonly<Record<string, unknown>>): number {
  const size = (name: string): number => Number(config[name] ?? 0);
  const numHeads = size("num_attention_heads");
  const headDim = size("head_dim") || size("hidden_size") / Math.max(1, numHeads);
  return 2 * size("num_hidden_layers") * (size("num_key_value_heads") || numHeads) * headDim * FLOAT32_BYTES;
}
