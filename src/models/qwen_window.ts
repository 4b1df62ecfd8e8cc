/** Sliding windows of the Qwen family, which are off in all released models but one. */
import { z } from "zod";
import type { FlatConfig } from "./architecture.ts";
import { attentionWindow, maybe, type TransformerShape } from "./config_parts.ts";
import { withWindow } from "./decoder_parts.ts";

export const qwenWindowShape = {
  use_sliding_window: maybe(z.boolean()),
  /** Layers from here on slide. */
  max_window_layers: maybe(z.int().min(0)),
};

type QwenWindow = TransformerShape & z.infer<z.ZodObject<typeof qwenWindowShape>>;

/** A `sliding_window` counts only with `use_sliding_window`; without `layer_types` it holds from layer `max_window_layers` on. */
export function qwenWindow(config: QwenWindow): FlatConfig {
  if (config.use_sliding_window !== true || config.sliding_window === undefined) return { sliding_window: 0, layer_types: "" };
  const first = config.max_window_layers ?? config.num_hidden_layers;
  return attentionWindow(config.layer_types === undefined ? withWindow(config, (layer) => layer >= first) : config);
}
