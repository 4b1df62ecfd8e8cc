import type { StepCosts } from "./messages.ts";

const FLOAT32_BYTES = 4;
/** Activations of a layer that live at the same time, the width of the widest one each. */
const LIVE_ACTIVATIONS = 8;
/** Scores before and after softmax. */
const LIVE_SCORES = 2;

/** What a step's temporaries take at most, as far as the checkpoint's shape tells: float32, one layer at a time, no fused attention. */
export function stepCosts(config: Readonly<Record<string, unknown>>): StepCosts {
  const size = (name: string): number => Number(config[name] ?? 0);
  const widest = Math.max(size("intermediate_size"), size("hidden_size"));
  return {
    bytesPerToken: LIVE_ACTIVATIONS * widest * FLOAT32_BYTES,
    bytesPerPair: LIVE_SCORES * size("num_attention_heads") * FLOAT32_BYTES,
  };
}
