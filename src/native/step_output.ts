import type { NativeLibrary } from "./library.ts";
import type { SampledRows, StructArray } from "./structs.ts";

/** Types of logits that tests may write. */
export const LOGITS_DTYPES = { float32: 0, float16: 1, bfloat16: 2 } as const;

/** One call of the sampler: `numRows` packed `rl_sampling`, the edits and masks that they point into, and where the answers go. */
export interface SampleCall {
  readonly rows: StructArray;
  readonly numRows: number;
  readonly edits: StructArray;
  readonly numEdits: number;
  /** [numMasks, ceil(vocabulary / 32)], bit set = allowed. */
  readonly masks: Uint32Array<ArrayBuffer>;
  readonly numMasks: number;
  readonly hasAlternatives: boolean;
  readonly sampled: SampledRows;
}

/** What one forward leaves: logits rows on the device. Reused from step to step. */
export class StepOutput {
  #handle: Deno.PointerValue;
  readonly #library: NativeLibrary;

  constructor(library: NativeLibrary) {
    const out = new BigUint64Array(1);
    library.check("rl_output_new", library.symbols.rl_output_new(out));
    this.#library = library;
    this.#handle = Deno.UnsafePointer.create(out[0] ?? 0n);
  }

  /** The C handle, for other classes of the fence. @throws {TypeError} when closed. */
  get unsafeHandle(): Deno.PointerObject {
    if (this.#handle === null) throw new TypeError("Cannot use a step output: it is closed");
    return this.#handle;
  }

  /** Copies all logits as float32 [rows, vocabulary] to `logits`; waits for the evaluation. */
  read(logits: Float32Array<ArrayBuffer>): void {
    const { symbols } = this.#library;
    this.#library.check("rl_output_read", symbols.rl_output_read(this.unsafeHandle, logits, BigInt(logits.length)));
  }

  /** For tests: copies all features as float32 [tokens, width] to `features`; waits for the evaluation. */
  readFeatures(features: Float32Array<ArrayBuffer>): void {
    const status = this.#library.symbols.rl_output_read_features(this.unsafeHandle, features, BigInt(features.length));
    this.#library.check("rl_output_read_features", status);
  }

  /** Puts logits [rows, vocabulary] of the caller in place of a forward's. Half types are given by their bits. */
  write(
    logits: Float32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>,
    vocabSize: number,
    dtype: keyof typeof LOGITS_DTYPES = "float32",
  ): void {
    const numRows = logits.length / vocabSize;
    if (!Number.isInteger(numRows)) {
      throw new RangeError(`Cannot write ${logits.length} logits: not a multiple of the vocabulary, ${vocabSize}`);
    }
    if ((dtype === "float32") !== (logits instanceof Float32Array)) {
      throw new TypeError(`Cannot write ${logits.constructor.name} as ${dtype}`);
    }
    const { symbols } = this.#library;
    this.#library.check("rl_output_write", symbols.rl_output_write(this.unsafeHandle, logits, numRows, vocabSize, LOGITS_DTYPES[dtype]));
  }

  /** Samples every logits row with its own configuration; waits for the evaluation. */
  sample(call: SampleCall): void {
    const { sampled } = call;
    sampled.reserve(call.numRows, call.hasAlternatives);
    const status = this.#library.symbols.rl_sample(
      this.unsafeHandle,
      call.rows.bytes,
      call.numRows,
      call.numEdits > 0 ? call.edits.bytes : null,
      call.numEdits,
      call.numMasks > 0 ? call.masks : null,
      call.numMasks,
      sampled.structs.bytes,
      call.hasAlternatives ? sampled.topTokens : null,
      call.hasAlternatives ? sampled.topLogprobs : null,
    );
    this.#library.check("rl_sample", status);
  }

  /** The first half of `sample`: the device draws as soon as the logits are there. Does not wait. */
  start(call: SampleCall): void {
    const status = this.#library.symbols.rl_sample_start(
      this.unsafeHandle,
      call.rows.bytes,
      call.numRows,
      call.numEdits > 0 ? call.edits.bytes : null,
      call.numEdits,
      call.numMasks > 0 ? call.masks : null,
      call.numMasks,
    );
    this.#library.check("rl_sample_start", status);
  }

  /** The second half: waits for the draws and writes them to `call.sampled`. */
  finish(call: SampleCall): void {
    const { sampled } = call;
    sampled.reserve(call.numRows, call.hasAlternatives);
    const status = this.#library.symbols.rl_sample_finish(
      this.unsafeHandle,
      sampled.structs.bytes,
      call.numRows,
      call.hasAlternatives ? sampled.topTokens : null,
      call.hasAlternatives ? sampled.topLogprobs : null,
    );
    this.#library.check("rl_sample_finish", status);
  }

  /** Gives back the memory of what it holds. */
  clear(): void {
    this.#library.check("rl_output_clear", this.#library.symbols.rl_output_clear(this.unsafeHandle));
  }

  /** For tests: which tokens the filters of `call`'s row `samplingRow` leave of logits row `logitsRow`, and the law of the draw. */
  distribution(logitsRow: number, call: SampleCall, samplingRow: number, vocabSize: number): Distribution {
    const kept = new Uint8Array(vocabSize);
    const probabilities = new Float32Array(vocabSize);
    const words = call.rows.wordsPerStruct;
    const status = this.#library.symbols.rl_sample_distribution(
      this.unsafeHandle,
      logitsRow,
      call.rows.int32.slice(samplingRow * words, (samplingRow + 1) * words),
      call.numEdits > 0 ? call.edits.bytes : null,
      call.numEdits,
      call.numMasks > 0 ? call.masks : null,
      call.numMasks,
      kept,
      probabilities,
    );
    this.#library.check("rl_sample_distribution", status);
    return { kept, probabilities };
  }

  close(): void {
    if (this.#handle === null) return;
    const handle = this.#handle;
    this.#handle = null;
    this.#library.check("rl_output_free", this.#library.symbols.rl_output_free(handle));
  }
}

export interface Distribution {
  /** 1 = may be drawn. */
  readonly kept: Uint8Array;
  readonly probabilities: Float32Array;
}
