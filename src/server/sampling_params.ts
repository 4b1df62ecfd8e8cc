/** From the sampling fields of a request to the frozen, canonical configuration of its rows. */
import { GREEDY, type SamplingConfig } from "../engine/sampling.ts";
import { invalidValue, outOfRange } from "./errors.ts";
import { show } from "./schemas/fields.ts";
import type { SamplingRequest } from "./schemas/sampling.ts";
import { DEFAULT_BREAKERS } from "./sequence_breakers.ts";
import { checkTokenIds, type ServedModel } from "./served_model.ts";
import { utf8Length } from "./utf8_length.ts";

/** Below this the sampler takes the best token. */
const GREEDY_BELOW = 1e-5;

/** Words are tokenized at once, in two spellings each, while streams wait. */
const MAX_BAD_WORD_BYTES = 4096;

/** What the endpoint decides beside the shared fields. */
export interface RowOptions {
  readonly seed: bigint;
  /** -1 no logprobs, else the number of alternatives. */
  readonly numTopLogprobs: number;
}

/**
 * The request's own values over the model's defaults over "off".
 * @param request has passed its schema.
 * @throws {ApiError} for what only the model can tell: ids outside the vocabulary, texts without a tokenizer.
 */
export function toSamplingConfig(request: SamplingRequest, model: ServedModel, options: RowOptions): SamplingConfig {
  const fields = withDefaults(request, model.samplingDefaults);
  const temperature = fields.temperature ?? 1;
  return Object.freeze({
    ...GREEDY,
    ...(temperature < GREEDY_BELOW ? {} : distribution(fields, temperature, model)),
    ...penalties(fields, model),
    ...dry(fields, model),
    ...constraints(fields, model),
    seed: options.seed,
    numTopLogprobs: options.numTopLogprobs,
  });
}

function withDefaults(request: SamplingRequest, defaults: SamplingRequest): SamplingRequest {
  const given = Object.entries(request).filter(([, value]) => value !== null && value !== undefined);
  const fields: SamplingRequest = { ...defaults, ...Object.fromEntries(given) };
  const { repetition_penalty: own, repeat_penalty: alias } = request;
  if (typeof own === "number" && typeof alias === "number" && own !== alias) {
    throw invalidValue("repeat_penalty", `must equal repetition_penalty, ${own}, when both are given; found ${alias}`);
  }
  // The alias counts as the request's own word, so it wins over the model's default, not over the real name.
  const penalty = request.repetition_penalty ?? request.repeat_penalty ?? defaults.repetition_penalty ?? defaults.repeat_penalty;
  return { ...fields, repetition_penalty: penalty };
}

/** What shapes the draw. A greedy row has none of it: its configuration equals every other greedy row's. */
function distribution(fields: SamplingRequest, temperature: number, model: ServedModel): Partial<SamplingConfig> {
  const topK = fields.top_k ?? 0;
  const xtcProbability = fields.xtc_probability ?? 0;
  const xtcThreshold = fields.xtc_threshold ?? GREEDY.xtcThreshold;
  // Two tokens cannot both have more than half of the mass, so XTC never finds two above such a threshold.
  const isXtc = xtcProbability > 0 && xtcThreshold <= 0.5;
  return {
    temperature,
    topK: topK <= 0 || topK >= model.loaded.vocabSize ? 0 : topK,
    topP: fields.top_p ?? 1,
    minP: fields.min_p ?? 0,
    topNSigma: Math.max(0, fields.top_n_sigma ?? 0),
    pLess: fields.p_less ?? false,
    typicalP: fields.typical_p || 1,
    temperatureLast: fields.temperature_last ?? false,
    ...(isXtc ? { xtcProbability, xtcThreshold } : {}),
  };
}

function penalties(fields: SamplingRequest, model: ServedModel): Partial<SamplingConfig> {
  const repetitionPenalty = fields.repetition_penalty || 1;
  const size = fields.repetition_context_size ?? GREEDY.repetitionContextSize;
  const isRepetition = repetitionPenalty !== 1 && size !== 0;
  return {
    ...(isRepetition ? { repetitionPenalty, repetitionContextSize: lookBack(size, model) } : {}),
    presencePenalty: fields.presence_penalty || 0,
    frequencyPenalty: fields.frequency_penalty || 0,
  };
}

/** -1 and everything beyond the context are the whole context. */
function lookBack(numTokens: number, model: ServedModel): number {
  return numTokens < 0 ? model.maxContext : Math.min(numTokens, model.maxContext);
}

function dry(fields: SamplingRequest, model: ServedModel): Partial<SamplingConfig> {
  const dryMultiplier = fields.dry_multiplier ?? 0;
  const dryBase = fields.dry_base ?? GREEDY.dryBase;
  const lastN = fields.dry_penalty_last_n ?? -1;
  if (dryMultiplier === 0 || dryBase === 0 || lastN === 0) return {};
  const breakers = fields.dry_sequence_breakers;
  if (breakers && breakers.length > 0 && model.breakers === null) throw noTokenizer("dry_sequence_breakers");
  return {
    dryMultiplier,
    dryBase,
    dryAllowedLength: Math.min(fields.dry_allowed_length ?? GREEDY.dryAllowedLength, model.maxContext),
    dryPenaltyLastN: lastN >= model.maxContext ? -1 : lastN,
    drySequenceBreakers: model.breakers?.encode(breakers ?? DEFAULT_BREAKERS) ?? [],
  };
}

function constraints(fields: SamplingRequest, model: ServedModel): Partial<SamplingConfig> {
  return {
    logitBias: logitBias(fields.logit_bias ?? {}, model.loaded.vocabSize),
    minTokens: Math.min(fields.min_tokens ?? 0, model.maxContext),
    ignoreEos: fields.ignore_eos ?? false,
    badWords: badWords(fields.bad_words ?? [], model),
    allowedTokenIds: allowedTokenIds(fields.allowed_token_ids ?? null, model.loaded.vocabSize),
  };
}

function logitBias(bias: Readonly<Record<string, number>>, vocabSize: number): ReadonlyMap<number, number> {
  const map = new Map<number, number>();
  for (const [key, value] of Object.entries(bias)) {
    // One spelling for each id: of two spellings in one request, one would be lost.
    if (!/^(?:0|-?[1-9]\d*)$/.test(key)) {
      throw invalidValue("logit_bias", `must have token ids as keys, in decimal digits without leading zeros; found ${show(key)}`);
    }
    checkTokenIds([Number(key)], vocabSize, "logit_bias");
    if (value !== 0) map.set(Number(key), value);
  }
  return map;
}

/** A word is banned as it stands and as the first word after a space: the two have other tokens. */
function badWords(words: readonly string[], model: ServedModel): readonly (readonly number[])[] {
  if (words.length === 0) return [];
  const { tokenizer } = model.loaded;
  if (tokenizer === null) throw noTokenizer("bad_words");
  const numBytes = words.reduce((sum, word) => sum + utf8Length(word), 0);
  if (numBytes > MAX_BAD_WORD_BYTES) {
    throw invalidValue("bad_words", `must have at most ${MAX_BAD_WORD_BYTES} bytes of UTF-8 together; found ${numBytes}`);
  }
  const spellings = words.flatMap((word) => word.startsWith(" ") ? [word] : [word, ` ${word}`]);
  const sequences = spellings.map((word) => tokenizer.encode(word)).filter((ids) => ids.length > 0);
  return [...new Map(sequences.map((ids) => [ids.join(), ids])).values()];
}

function allowedTokenIds(ids: readonly number[] | null, vocabSize: number): readonly number[] | null {
  if (ids === null) return null;
  if (ids.length === 0) throw outOfRange("allowed_token_ids", "must have at least 1 token id; found 0");
  checkTokenIds(ids, vocabSize, "allowed_token_ids");
  return [...new Set(ids)].sort((a, b) => a - b);
}

function noTokenizer(param: string): Error {
  return invalidValue(param, "needs a tokenizer, and the loaded model has none; found a text");
}
