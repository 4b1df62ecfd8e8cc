import type { NativeLibrary } from "./library.ts";
import type { ModelSpec } from "./model_spec.ts";
import { NativeCache } from "./native_cache.ts";
import { configText, cString, tensorsText } from "./spec_text.ts";
import type { StepOutput } from "./step_output.ts";
import type { StructArray } from "./structs.ts";

export interface NativeModelInfo {
  readonly weightBytes: number;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly numLayers: number;
  /** KV of one token of one slot. */
  readonly kvBytesPerToken: number;
  /** Recurrent state of one slot. */
  readonly recurrentBytesPerSlot: number;
  readonly computeType: "float32" | "float16" | "bfloat16";
  /** In its caches the tokens that were written take memory, not slots and capacity. */
  readonly isKvSparse: boolean;
  /** `StepOutput.start` and `forwardDrawn` work. */
  readonly canDrawAhead: boolean;
}

const COMPUTE_TYPES = ["float32", "float16", "bfloat16"] as const;

/**
 * What a drafter reads of its model: nothing, the hidden states after the final norm, or the concatenated outputs of some decoder layers,
 * which count from 0.
 */
export type FeatureCapture = { readonly kind: "none" | "final" } | { readonly kind: "layers"; readonly layers: readonly number[] };

/** `RL_CAPTURE_*`. */
const CAPTURE_KINDS: Readonly<Record<FeatureCapture["kind"], number>> = { none: 0, final: 1, layers: 2 };

/** The weights of one checkpoint. Belongs to the thread that loaded it. Closing it closes its caches and drafters. */
export class NativeModel {
  #handle: Deno.PointerValue;
  readonly #dependents = new Set<{ close(): void }>();
  readonly info: NativeModelInfo;

  private constructor(readonly library: NativeLibrary, handle: Deno.PointerValue) {
    this.#handle = handle;
    this.info = readInfo(library, this.unsafeHandle);
  }

  /**
   * Loads the checkpoint that `spec` describes; blocks until all weights are in memory.
   * @throws {NativeError} of kind "model" when the checkpoint does not fit its config, "memory" when it does not fit the machine.
   */
  static load(library: NativeLibrary, spec: ModelSpec): NativeModel {
    const out = new BigUint64Array(1);
    const status = library.symbols.rl_model_load(cString(configText(spec.config)), cString(tensorsText(spec.tensors)), out);
    library.check("rl_model_load", status);
    return new NativeModel(library, Deno.UnsafePointer.create(out[0] ?? 0n));
  }

  /** The C handle, for other classes of the fence. @throws {TypeError} when closed. */
  get unsafeHandle(): Deno.PointerObject {
    if (this.#handle === null) throw new TypeError("Cannot use a model: it is closed");
    return this.#handle;
  }

  /** An empty cache of 0 slots. */
  newCache(): NativeCache {
    const maker = {
      call: "rl_cache_new",
      make: (out: BigUint64Array<ArrayBuffer>) => this.library.symbols.rl_cache_new(this.unsafeHandle, out),
    };
    const cache = new NativeCache(this.library, maker, () => this.#dependents.delete(cache));
    this.#dependents.add(cache);
    return cache;
  }

  /** What needs this model is closed with it, before it. Returns how to take it off the list. */
  own(dependent: { close(): void }): () => void {
    this.#dependents.add(dependent);
    return () => void this.#dependents.delete(dependent);
  }

  /** From now on every forward leaves these features of all its tokens in its output, for drafters. */
  capture(capture: FeatureCapture): void {
    const layers = Int32Array.from(capture.kind === "layers" ? capture.layers : []);
    const status = this.library.symbols.rl_model_capture(this.unsafeHandle, CAPTURE_KINDS[capture.kind], layers, layers.length);
    this.library.check("rl_model_capture", status);
  }

  /** Runs packed tokens of ragged rows (`rl_row` structs), writes their KV and launches the evaluation of the wanted logits. Does not wait. */
  forward(
    cache: NativeCache,
    output: StepOutput,
    tokens: Int32Array<ArrayBuffer>,
    numTokens: number,
    rows: StructArray,
    numRows: number,
  ): void {
    const { symbols } = this.library;
    const status = symbols.rl_forward(this.unsafeHandle, cache.unsafeHandle, output.unsafeHandle, tokens, numTokens, rows.bytes, numRows);
    if (status !== 0) this.library.check("rl_forward", status);
  }

  /**
   * A forward of one token of each row: what row i of `drawn`'s logits draws, where `StepOutput.start` has been called, known or not. `output` is
   * another one. Does not wait.
   */
  forwardDrawn(cache: NativeCache, output: StepOutput, drawn: StepOutput, rows: StructArray, numRows: number): void {
    const { symbols } = this.library;
    const handles = [this.unsafeHandle, cache.unsafeHandle, output.unsafeHandle, drawn.unsafeHandle] as const;
    const status = symbols.rl_forward_drawn(...handles, rows.bytes, numRows);
    if (status !== 0) this.library.check("rl_forward_drawn", status);
  }

  close(): void {
    if (this.#handle === null) return;
    for (const dependent of [...this.#dependents]) dependent.close();
    const handle = this.#handle;
    this.#handle = null;
    this.library.check("rl_model_free", this.library.symbols.rl_model_free(handle));
  }
}

function readInfo(library: NativeLibrary, handle: Deno.PointerObject): NativeModelInfo {
  const out = new BigInt64Array(9);
  library.check("rl_model_info", library.symbols.rl_model_info(handle, out));
  const [
    weightBytes = 0,
    vocabSize = 0,
    hiddenSize = 0,
    numLayers = 0,
    kvBytesPerToken = 0,
    recurrentBytesPerSlot = 0,
    type = 0,
    sparse = 0,
    drawsAhead = 0,
  ] = [...out].map(Number);
  const computeType = COMPUTE_TYPES[type];
  if (computeType === undefined) {
    throw new RangeError(`The native library reports compute type ${type}, known are 0 … ${COMPUTE_TYPES.length - 1}`);
  }
  return {
    weightBytes,
    vocabSize,
    hiddenSize,
    numLayers,
    kvBytesPerToken,
    recurrentBytesPerSlot,
    computeType,
    isKvSparse: sparse === 1,
    canDrawAhead: drawsAhead === 1,
  };
}
