import { packSampling } from "../../src/engine/sampling_batch.ts";
import { GREEDY, type SamplingConfig } from "../../src/engine/sampling.ts";
import { findLibrary, NativeLibrary } from "../../src/native/library.ts";
import { type Distribution, LOGITS_DTYPES, type SampleCall, StepOutput } from "../../src/native/step_output.ts";
import { EDIT_WORDS, SampledRows, SAMPLING_FIELD as FIELD, SAMPLING_WORDS, StructArray } from "../../src/native/structs.ts";
import { TOP_LOGPROBS_MAX } from "../../src/native/symbols.ts";

/** One row's sampling in tests: what is left out is off, and a row without a temperature is greedy. */
export interface RowSettings extends Partial<SamplingConfig> {
  readonly position?: number;
  readonly edits?: readonly TokenEdit[];
}

export interface TokenEdit {
  readonly token: number;
  readonly bias?: number;
  readonly repetition?: number;
  readonly subtract?: number;
}

/** What one row drew; `top` has only the alternatives that exist. */
export interface DrawnRow {
  readonly token: number;
  readonly logprob: number;
  readonly isBroken: boolean;
  readonly numKept: number;
  readonly top: readonly { readonly token: number; readonly logprob: number }[];
}

/** How rows become structs. A test may bring a wrong one to show that it would notice. */
export type RowPacking = (rows: StructArray, row: number, settings: readonly RowSettings[]) => void;

/** Packs row `row` by its own settings. */
export function packOwn(rows: StructArray, row: number, settings: readonly RowSettings[]): void {
  const own = settings[row] ?? {};
  packSampling(rows, row, { ...GREEDY, ...own });
  rows.uint32[row * SAMPLING_WORDS + FIELD.position] = own.position ?? 0;
}

/** The native sampler over logits that a test writes. */
export class RowSampler {
  readonly library = NativeLibrary.open(findLibrary());
  readonly #output = new StepOutput(this.library);
  #vocabSize = 0;

  write(
    logits: Float32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>,
    vocabSize: number,
    dtype: keyof typeof LOGITS_DTYPES = "float32",
  ): void {
    this.#output.write(logits, vocabSize, dtype);
    this.#vocabSize = vocabSize;
  }

  sample(settings: readonly RowSettings[], pack: RowPacking = packOwn): DrawnRow[] {
    const call = this.#call(settings, pack);
    this.#output.sample(call);
    return settings.map((own, row) => readRow(call.sampled, row, own.numTopLogprobs ?? -1));
  }

  /** Survivors of logits row `logitsRow` and the law of the draw. */
  distribution(settings: RowSettings, logitsRow = 0): Distribution {
    return this.#output.distribution(logitsRow, this.#call([settings], packOwn), 0, this.#vocabSize);
  }

  words(seed: bigint, position: number, count: number): Uint32Array {
    const words = new Uint32Array(count);
    this.library.check("rl_random_words", this.library.symbols.rl_random_words(seed, position, words, count));
    return words;
  }

  close(): void {
    this.#output.close();
    this.library.close();
  }

  #call(settings: readonly RowSettings[], pack: RowPacking): SampleCall {
    const rows = new StructArray(SAMPLING_WORDS, settings.length);
    const edits = new StructArray(EDIT_WORDS);
    const maskWords = Math.ceil(this.#vocabSize / 32);
    const masked = settings.filter((own) => own.allowedTokenIds);
    const masks = new Uint32Array(masked.length * maskWords);
    let numEdits = 0, numMasks = 0;
    settings.forEach((own, row) => {
      pack(rows, row, settings);
      const at = row * SAMPLING_WORDS;
      rows.int32[at + FIELD.editsBegin] = numEdits;
      for (const edit of own.edits ?? []) writeEdit(edits, numEdits++, edit);
      rows.int32[at + FIELD.editsEnd] = numEdits;
      rows.int32[at + FIELD.mask] = own.allowedTokenIds ? numMasks : -1;
      if (own.allowedTokenIds) setBits(masks.subarray(numMasks++ * maskWords), own.allowedTokenIds);
    });
    return { rows, numRows: settings.length, edits, numEdits, masks, numMasks, hasAlternatives: true, sampled: new SampledRows() };
  }
}

function writeEdit(edits: StructArray, index: number, edit: TokenEdit): void {
  edits.reserve(index + 1);
  edits.int32[index * EDIT_WORDS] = edit.token;
  edits.float32.set([edit.bias ?? 0, edit.repetition ?? 1, edit.subtract ?? 0], index * EDIT_WORDS + 1);
}

function setBits(mask: Uint32Array, ids: readonly number[]): void {
  for (const id of ids) mask[id >>> 5] = (mask[id >>> 5] ?? 0) | (1 << (id & 31));
}

function readRow(sampled: SampledRows, row: number, numTop: number): DrawnRow {
  const begin = row * TOP_LOGPROBS_MAX;
  const tokens = sampled.topTokens.subarray(begin, begin + Math.max(numTop, 0));
  const top = [...tokens].map((token, i) => ({ token, logprob: sampled.topLogprobs[begin + i] ?? Number.NaN })).filter(({ token }) =>
    token >= 0
  );
  return {
    token: sampled.token(row),
    logprob: sampled.logprob(row),
    isBroken: sampled.isBroken(row),
    numKept: sampled.numKept(row),
    top,
  };
}

/** Opens a sampler for one test and closes it after. */
export function withSampler(body: (sampler: RowSampler) => void): () => void {
  return () => {
    const sampler = new RowSampler();
    try {
      body(sampler);
    } finally {
      sampler.close();
    }
  };
}

/** Repeatable pseudo-random numbers in [0, 1) for making logits; unrelated to the sampler's own. */
export function uniformNumbers(seed: number): () => number {
  let state = BigInt(seed) * 2862933555777941757n + 3037000493n;
  return () => {
    state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n);
    return Number(state >> 11n) / 2 ** 53;
  };
}

/**
 * Logits as a model leaves them: a normal bulk and a few tokens that stand out. Rounded to 1/1024, so that they do not depend on the last bit of
 * a system's logarithm.
 */
export function modelLikeLogits(vocabSize: number, seed: number, spread = 2): Float32Array<ArrayBuffer> {
  const uniform = uniformNumbers(seed);
  const logits = new Float32Array(vocabSize);
  for (let i = 0; i < vocabSize; i++) {
    const normal = Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
    const logit = spread * normal + (uniform() * vocabSize < 12 ? 8 * uniform() : 0);
    logits[i] = Math.round(1024 * logit) / 1024;
  }
  return logits;
}
