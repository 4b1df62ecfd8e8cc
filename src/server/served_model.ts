/** A loaded model with what the server derives from it once: defaults, limits, fingerprint. */
import { createHash } from "node:crypto";
import type { LoadedModel } from "../models/loaded_model.ts";
import { outOfRange } from "./errors.ts";
import { LongPrompts } from "./long_prompts.ts";
import { SAMPLING_SHAPE, type SamplingRequest } from "./schemas/sampling.ts";
import { SequenceBreakers } from "./sequence_breakers.ts";

export interface ServedModel {
  readonly loaded: LoadedModel;
  /** Tokens of one sequence, prompt and answer, at most. */
  readonly maxContext: number;
  /** Sampling fields that a request need not send, in the protocol's names. */
  readonly samplingDefaults: SamplingRequest;
  /** null without a tokenizer. */
  readonly breakers: SequenceBreakers | null;
  /** null for a model that no other thread can read. */
  readonly longPrompts: LongPrompts | null;
  /** Bytes of the vocabulary's longest token; 0 without a tokenizer. Looked for once, when it is first asked for. */
  readonly longestTokenBytes: () => number;
  /** Equal for equal weights and build. */
  readonly systemFingerprint: string;
  /** Unix seconds. */
  readonly createdAt: number;
}

/** @param maxContext the server's own limit; the checkpoint's applies too. */
export function serveModel(loaded: LoadedModel, maxContext: number, version: string, nowMs: number): ServedModel {
  return {
    loaded,
    maxContext: Math.min(maxContext, loaded.maxContext),
    samplingDefaults: samplingDefaults(loaded.generationDefaults),
    breakers: loaded.tokenizer === null ? null : new SequenceBreakers(loaded.tokenizer),
    longPrompts: loaded.path === undefined || loaded.tokenizer === null ? null : new LongPrompts(loaded.path),
    longestTokenBytes: once(() => longestTokenBytes(loaded)),
    systemFingerprint: fingerprint(loaded, version),
    createdAt: Math.floor(nowMs / 1000),
  };
}

/** Takes the defaults that this server knows and whose values are in their domain: a strange generation config must not fail every request. */
function samplingDefaults(generation: LoadedModel["generationDefaults"]): SamplingRequest {
  const defaults: Record<string, unknown> = { temperature: generation["do_sample"] === false ? 0 : 1 };
  for (const [name, value] of Object.entries(generation)) {
    if (!Object.hasOwn(SAMPLING_SHAPE, name) || (name === "temperature" && generation["do_sample"] === false)) continue;
    if (SAMPLING_SHAPE[name as keyof typeof SAMPLING_SHAPE].safeParse(value).success) defaults[name] = value;
  }
  return defaults as SamplingRequest;
}

function longestTokenBytes({ tokenizer }: LoadedModel): number {
  let longest = 0;
  for (let id = 0; tokenizer !== null && id < tokenizer.vocabSize; id++) longest = Math.max(longest, tokenizer.tokenBytes(id).length);
  return longest;
}

function once<T>(compute: () => T): () => T {
  let value: { readonly result: T } | null = null;
  return () => (value ??= { result: compute() }).result;
}

function fingerprint(loaded: LoadedModel, version: string): string {
  const tensors = loaded.spec.tensors.map((tensor) => [tensor.name, tensor.type, tensor.offset, tensor.byteLength]);
  const facts = JSON.stringify([version, loaded.modelType, loaded.spec.config, tensors]);
  return `fp_${createHash("sha256").update(facts).digest("hex").slice(0, 12)}`;
}

/** @throws {ApiError} 422 that names the parameter, the id and the vocabulary. */
export function checkTokenIds(ids: readonly number[], vocabSize: number, param: string): void {
  const wrong = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
  if (wrong !== undefined) throw outOfRange(param, `must be token ids from 0 to ${vocabSize - 1}; found ${wrong}`);
}
