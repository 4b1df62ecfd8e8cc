import { TOP_LOGPROBS_MAX } from "../native/symbols.ts";
import type { DraftKind, GenerateRequest } from "./messages.ts";
import type { SamplingConfig } from "./sampling.ts";

/** What requests are checked against. */
export interface RequestLimits {
  readonly vocabSize: number;
  readonly maxContext: number;
  /** Who can draft. */
  readonly draftKinds: readonly DraftKind[];
}

/**
 * The first thing that makes a request impossible to compute, or null. The server refuses these at admission, with better texts; here they
 * must not reach native code, whoever sent them.
 */
export function findRequestFault(request: GenerateRequest, limits: RequestLimits): string | null {
  const { promptIds, maxTokens, sampling } = request;
  const length = promptIds.length + maxTokens;
  if (promptIds.length === 0) return "The prompt has no tokens, at least 1 is needed";
  if (!Number.isInteger(maxTokens) || maxTokens < 0) return `maxTokens is ${maxTokens}, allowed are whole numbers from 0`;
  if (length > limits.maxContext) {
    return `The prompt's ${promptIds.length} tokens and maxTokens ${maxTokens} exceed the context of ${limits.maxContext}`;
  }
  if (!isTopCount(request.promptLogprobs)) return `promptLogprobs is ${request.promptLogprobs}, allowed are -1 … ${TOP_LOGPROBS_MAX}`;
  const draftKinds = ["none", ...limits.draftKinds];
  if (request.draftKind !== undefined && !draftKinds.includes(request.draftKind)) {
    return `draftKind is ${request.draftKind}, loaded are ${draftKinds.join(", ")}`;
  }
  return findIdFault(request, limits.vocabSize) ?? findSamplingFault(sampling);
}

function findIdFault(request: GenerateRequest, vocabSize: number): string | null {
  const { sampling } = request;
  const isId = (id: number): boolean => Number.isInteger(id) && id >= 0 && id < vocabSize;
  const lists: [string, Iterable<number>][] = [
    ["promptIds", request.promptIds],
    ["stopIds", request.stopIds],
    ["logitBias", sampling.logitBias.keys()],
    ["badWords", sampling.badWords.flat()],
    ["drySequenceBreakers", sampling.drySequenceBreakers.flat()],
    ["allowedTokenIds", sampling.allowedTokenIds ?? []],
  ];
  for (const [name, ids] of lists) {
    for (const id of ids) if (!isId(id)) return `${name} holds ${id}, allowed are token ids 0 … ${vocabSize - 1}`;
  }
  return sampling.allowedTokenIds?.length === 0 ? "allowedTokenIds is empty, at least 1 id is needed" : null;
}

/** Lowest and highest value of each number; both ends are allowed. */
const DOMAINS: readonly [keyof SamplingConfig, number, number][] = [
  ["temperature", 0, 1e6],
  ["topK", 0, Number.MAX_SAFE_INTEGER],
  ["topP", 0, 1],
  ["minP", 0, 1],
  ["topNSigma", 0, 1e6],
  ["typicalP", 0, 1],
  ["repetitionPenalty", 1e-6, 1e6],
  ["repetitionContextSize", 0, Number.MAX_SAFE_INTEGER],
  ["presencePenalty", -1e6, 1e6],
  ["frequencyPenalty", -1e6, 1e6],
  ["dryMultiplier", 0, 1e6],
  ["dryBase", 0, 1e6],
  ["dryAllowedLength", 0, Number.MAX_SAFE_INTEGER],
  ["dryPenaltyLastN", -1, Number.MAX_SAFE_INTEGER],
  ["xtcProbability", 0, 1],
  ["xtcThreshold", 0, 1],
  ["minTokens", 0, Number.MAX_SAFE_INTEGER],
];

function findSamplingFault(sampling: SamplingConfig): string | null {
  for (const [name, low, high] of DOMAINS) {
    const value = sampling[name] as number;
    if (!(value >= low && value <= high)) return `${name} is ${value}, allowed are ${low} … ${high}`;
  }
  if (!isTopCount(sampling.numTopLogprobs)) return `numTopLogprobs is ${sampling.numTopLogprobs}, allowed are -1 … ${TOP_LOGPROBS_MAX}`;
  for (const bias of sampling.logitBias.values()) {
    if (!(Math.fround(bias) < Infinity)) return `logitBias holds ${bias}, allowed are finite float32 numbers and -Infinity`;
  }
  return null;
}

function isTopCount(value: number): boolean {
  return Number.isInteger(value) && value >= -1 && value <= TOP_LOGPROBS_MAX;
}
