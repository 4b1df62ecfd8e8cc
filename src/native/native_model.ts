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
}

const COMPUTE_TYPES = ["float32", "float16", "bfloat16"] as const;

/** The weights of one checkpoint. Belongs to the thread that loaded it. Closing it closes its caches. */
export class NativeModel {
  #handle: Deno.PointerValue;
  readonly #caches = new Set<NativeCache>();
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
    const cache = new NativeCache(this.library, this.unsafeHandle, () => this.#caches.delete(cache));
    this.#caches.add(cache);
    return cache;
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

  close(): void {
    if (this.#handle === null) return;
    for (const cache of [...this.#caches]) cache.close();
    const handle = this.#handle;
    this.#handle = null;
    this.library.check("rl_model_free", this.library.symbols.rl_model_free(handle));
  }
}

function readInfo(library: NativeLibrary, handle: Deno.PointerObject): NativeModelInfo {
  const out = new BigInt64Array(8);
  library.check("rl_model_info", library.symbols.rl_model_info(handle, out));
  const [weightBytes = 0, vocabSize = 0, hiddenSize = 0, numLayers = 0, kvBytesPerToken = 0, recurrentBytesPerSlot = 0, type = 0] = [...out]
    .map(Number);
  const computeType = COMPUTE_TYPES[type];
  if (computeType === undefined) {
    throw new RangeError(`The native library reports compute type ${type}, known are 0 … ${COMPUTE_TYPES.length - 1}`);
  }
  return { weightBytes, vocabSize, hiddenSize, numLayers, kvBytesPerToken, recurrentBytesPerSlot, computeType };
}
