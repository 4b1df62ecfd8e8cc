import type { NativeLibrary } from "./library.ts";
import type { ModelSpec } from "./model_spec.ts";
import { NativeCache } from "./native_cache.ts";
import type { NativeModel } from "./native_model.ts";
import { configText, cString, tensorsText } from "./spec_text.ts";
import type { StepOutput } from "./step_output.ts";
import type { StructArray } from "./structs.ts";

export interface NativeDrafterInfo {
  readonly weightBytes: number;
  /** Width of the model's features that it takes, and of those that it makes itself. */
  readonly modelFeatureWidth: number;
  readonly ownFeatureWidth: number;
  /** KV of one history entry of one slot. */
  readonly kvBytesPerToken: number;
  /** In its caches the tokens that were written take memory, not slots and capacity. */
  readonly isKvSparse: boolean;
}

/** One call of a drafter: packed tokens and feature rows of ragged rows (`rl_draft_row` structs). */
export interface DraftCall {
  readonly tokens: Int32Array<ArrayBuffer>;
  readonly numTokens: number;
  readonly rows: StructArray;
  readonly numRows: number;
  /** Whose features: the output of a forward of the drafter's model, or of an earlier draft; may be the output of this call. */
  readonly source: StepOutput;
  /** Indices of `source`'s feature rows, packed like the rows. */
  readonly sourceRows: Int32Array<ArrayBuffer>;
  readonly numSourceRows: number;
}

/**
 * Weights that propose tokens for one model. Shares the model's embedding and output head, belongs to its thread, and is closed with it.
 * What the calls of a round are, for each kind, is written at `rl_draft` in `ffi/include/rowlock.h`.
 */
export class NativeDrafter {
  #handle: Deno.PointerValue;
  readonly #library: NativeLibrary;
  readonly #caches = new Set<NativeCache>();
  readonly #leaveModel: () => void;
  readonly info: NativeDrafterInfo;

  private constructor(model: NativeModel, handle: Deno.PointerValue) {
    this.#library = model.library;
    this.#handle = handle;
    this.#leaveModel = model.own(this);
    this.info = readInfo(this.#library, this.unsafeHandle);
  }

  /**
   * Loads a drafter for `model`; blocks until its weights are in memory.
   * @throws {NativeError} of kind "model" when it does not fit the model or its own config.
   */
  static load(model: NativeModel, spec: ModelSpec): NativeDrafter {
    const { library } = model;
    const out = new BigUint64Array(1);
    const status = library.symbols.rl_drafter_load(
      cString(configText(spec.config)),
      cString(tensorsText(spec.tensors)),
      model.unsafeHandle,
      out,
    );
    library.check("rl_drafter_load", status);
    return new NativeDrafter(model, Deno.UnsafePointer.create(out[0] ?? 0n));
  }

  /** The C handle, for other classes of the fence. @throws {TypeError} when closed. */
  get unsafeHandle(): Deno.PointerObject {
    if (this.#handle === null) throw new TypeError("Cannot use a drafter: it is closed");
    return this.#handle;
  }

  /** An empty cache of 0 slots for the history; its slots are numbered like the model's. */
  newCache(): NativeCache {
    const { symbols } = this.#library;
    const make = (out: BigUint64Array<ArrayBuffer>): number => symbols.rl_drafter_cache_new(this.unsafeHandle, out);
    const cache = new NativeCache(this.#library, { call: "rl_drafter_cache_new", make }, () => this.#caches.delete(cache));
    this.#caches.add(cache);
    return cache;
  }

  /** Writes history entries and launches the evaluation of logits and features into `output`. Does not wait. */
  draft(cache: NativeCache, output: StepOutput, call: DraftCall): void {
    const status = this.#library.symbols.rl_draft(
      this.unsafeHandle,
      cache.unsafeHandle,
      output.unsafeHandle,
      call.tokens,
      call.numTokens,
      call.rows.bytes,
      call.numRows,
      call.source.unsafeHandle,
      call.sourceRows,
      call.numSourceRows,
    );
    if (status !== 0) this.#library.check("rl_draft", status);
  }

  close(): void {
    if (this.#handle === null) return;
    for (const cache of [...this.#caches]) cache.close();
    const handle = this.#handle;
    this.#handle = null;
    this.#leaveModel();
    this.#library.check("rl_drafter_free", this.#library.symbols.rl_drafter_free(handle));
  }
}

function readInfo(library: NativeLibrary, handle: Deno.PointerObject): NativeDrafterInfo {
  const out = new BigInt64Array(6);
  library.check("rl_drafter_info", library.symbols.rl_drafter_info(handle, out));
  const [weightBytes = 0, modelFeatureWidth = 0, ownFeatureWidth = 0, kvBytesPerToken = 0, , sparse = 0] = [...out].map(Number);
  return { weightBytes, modelFeatureWidth, ownFeatureWidth, kvBytesPerToken, isKvSparse: sparse === 1 };
}
