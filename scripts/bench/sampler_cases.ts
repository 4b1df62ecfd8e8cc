/** The cases of the sampler's benchmark: what the rows of a batch ask for. */
import { GREEDY, type SamplingConfig } from "../../src/engine/sampling.ts";

export interface SamplerCase {
  readonly name: string;
  /** The configuration of row `row`. */
  readonly config: (row: number) => SamplingConfig;
  /** Logits of each row that penalties change. */
  readonly numEdits: number;
}

function shared(name: string, fields: Partial<SamplingConfig>, numEdits = 0): SamplerCase {
  return { name, numEdits, config: (row) => ({ ...GREEDY, temperature: 0.8, seed: BigInt(row), ...fields }) };
}

/** Row r has every filter with values of its own, each of them off in some rows. */
function distinctConfig(row: number): SamplingConfig {
  return {
    ...GREEDY,
    temperature: 0.5 + 0.06 * row,
    seed: BigInt(1000 + row),
    topP: row % 3 === 0 ? 1 : 0.99 - 0.02 * (row % 5),
    topK: row % 4 === 0 ? 0 : 10 * (1 + row),
    minP: row % 2 === 0 ? 0 : 0.02 + 0.005 * row,
  };
}

export const GREEDY_CASE: SamplerCase = { name: "greedy", numEdits: 0, config: () => GREEDY };

export const SAMPLER_CASES: readonly SamplerCase[] = [
  GREEDY_CASE,
  shared("temperature", {}),
  shared("top_k", { topK: 40 }),
  shared("top_p", { topP: 0.9 }),
  shared("min_p", { minP: 0.05 }),
  shared("all modes", { topNSigma: 2, pLess: true, typicalP: 0.95, topK: 200, topP: 0.98, minP: 0.001, xtcProbability: 0.5 }),
  { name: "all distinct", numEdits: 0, config: distinctConfig },
  shared("penalties", {}, 200),
  shared("logprobs", { numTopLogprobs: 5 }),
];
