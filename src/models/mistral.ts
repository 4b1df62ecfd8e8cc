/** Mistral: Llama's layers; a window, where the config has one, holds for all of them. GGUF files call it llama. */
import type { Architecture } from "./architecture.ts";
import { llama } from "./llama.ts";

export const mistral: Architecture = {
  ...llama,
  modelTypes: ["mistral"],
  ggufArchitectures: [],
  resolve: (config, hasTensor) => llama.resolve(withLayerTypes(config), hasTensor),
};

function withLayerTypes(config: unknown): unknown {
  if (typeof config !== "object" || config === null) return config;
  const { sliding_window: window, layer_types: types, num_hidden_layers: numLayers } = config as Record<string, unknown>;
  if ((window ?? null) === null || (types ?? null) !== null || !Number.isInteger(numLayers) || Number(numLayers) > 4096) return config;
  return { ...config, layer_types: new Array(Number(numLayers)).fill("sliding_attention") };
}
