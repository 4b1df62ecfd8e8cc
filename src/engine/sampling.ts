/**
 * How one row is sampled. A `SamplingConfig` is made at admission, frozen, canonical (two spellings of "off" are equal) and stays with its row
 * for life. The order in which its parts apply is documented in `ffi/src/sampling/sampler.c`.
 */
export interface SamplingConfig {
  /** Below 1e-5 the row is greedy: argmax, lowest id first. */
  readonly temperature: number;
  /** Keeps the k most likely tokens; 0 is off. */
  readonly topK: number;
  /** Keeps the smallest set whose mass reaches p; 1 is off, 0 keeps the best token. */
  readonly topP: number;
  /** Drops tokens less likely than `minP` times the best one; 0 is off. */
  readonly minP: number;
  /** 0 … 2^64-1. An unseeded request gets a random one at admission. */
  readonly seed: bigint;
  /** Drops logits more than n standard deviations below the best; 0 is off. */
  readonly topNSigma: number;
  readonly pLess: boolean;
  /** Keeps the tokens whose surprise is closest to the entropy, up to this mass; 1 is off. */
  readonly typicalP: number;
  /** The rank filters look at the distribution before temperature, as in mlx-lm and llama.cpp. */
  readonly temperatureLast: boolean;
  /** Over prompt and generated tokens of the last `repetitionContextSize`; 1 is off. */
  readonly repetitionPenalty: number;
  readonly repetitionContextSize: number;
  /** Over the generated tokens, as OpenAI defines them; 0 is off. */
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly dryMultiplier: number;
  readonly dryBase: number;
  readonly dryAllowedLength: number;
  /** Tokens looked back at; -1 is the whole context, 0 is off. */
  readonly dryPenaltyLastN: number;
  /** Token sequences that end a repetition. */
  readonly drySequenceBreakers: readonly (readonly number[])[];
  readonly xtcProbability: number;
  readonly xtcThreshold: number;
  readonly logitBias: ReadonlyMap<number, number>;
  /** End-of-sequence ids are banned until this many tokens are generated. */
  readonly minTokens: number;
  readonly ignoreEos: boolean;
  /** Token sequences that must not be completed. */
  readonly badWords: readonly (readonly number[])[];
  /** Only these may be drawn; null allows all. */
  readonly allowedTokenIds: readonly number[] | null;
  /** -1 no logprobs, 0 the chosen token's only, up to 20 alternatives. */
  readonly numTopLogprobs: number;
}

/** Everything off: greedy. */
export const GREEDY: SamplingConfig = Object.freeze({
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  seed: 0n,
  topNSigma: 0,
  pLess: false,
  typicalP: 1,
  temperatureLast: false,
  repetitionPenalty: 1,
  repetitionContextSize: 20,
  presencePenalty: 0,
  frequencyPenalty: 0,
  dryMultiplier: 0,
  dryBase: 1.75,
  dryAllowedLength: 2,
  dryPenaltyLastN: -1,
  drySequenceBreakers: [],
  xtcProbability: 0,
  xtcThreshold: 0.1,
  logitBias: new Map(),
  minTokens: 0,
  ignoreEos: false,
  badWords: [],
  allowedTokenIds: null,
  numTopLogprobs: -1,
});
