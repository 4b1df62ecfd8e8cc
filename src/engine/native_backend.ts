import { NativeLibrary } from "../native/library.ts";
import type { ModelSpec } from "../native/model_spec.ts";
import type { NativeCache } from "../native/native_cache.ts";
import { NativeError } from "../native/native_error.ts";
import { NativeModel } from "../native/native_model.ts";
import type { NativePage } from "../native/native_page.ts";
import { type SampleCall, StepOutput } from "../native/step_output.ts";
import { BackendError, type BackendMemory, type BackendPage, type ModelBackend, type PageImage, type PageParts } from "./backend.ts";
import type { DrafterSpec } from "./messages.ts";
import { NativeDrafterBackend } from "./native_drafter_backend.ts";
import { stepCosts } from "./step_memory.ts";
import type { StepPlan } from "./step_plan.ts";

/** MLX keeps freed buffers for the next step. This is room for a step's temporaries, and not for the caches that were resized away. */
const BUFFER_CACHE_BYTES = 128 * 2 ** 20;

const PAGE_BYTES = 4096;

/** Keys and values of each head of a row lie far from all others: each stretch has a page of the system's tables for its first 2 MB. */
function tableBytes(numLayers: number, { num_key_value_heads }: ModelSpec["config"]): number {
  return 2 * numLayers * Number(num_key_value_heads ?? 1) * PAGE_BYTES;
}

/** A model in the native library. All calls come from the thread that loaded it. */
export class NativeBackend implements ModelBackend {
  readonly facts: ModelBackend["facts"];
  readonly drafter: NativeDrafterBackend | null;
  readonly #library: NativeLibrary;
  readonly #model: NativeModel;
  readonly #cache: NativeCache;
  /** Of the forward that is sampled next. */
  #output: StepOutput;
  /** Of the forward behind it, if there is one. */
  #nextOutput: StepOutput;
  #hasGoneOn = false;

  private constructor(library: NativeLibrary, model: NativeModel, { config }: ModelSpec, drafter: DrafterSpec | null) {
    this.#library = library;
    this.#model = model;
    this.#cache = model.newCache();
    this.#output = new StepOutput(library);
    this.#nextOutput = new StepOutput(library);
    this.drafter = drafter === null ? null : new NativeDrafterBackend(model, this.#output, drafter);
    const { vocabSize, recurrentBytesPerSlot: kvBytesPerSlot } = model.info;
    const build = library.buildInfo();
    this.facts = {
      vocabSize,
      weightBytes: model.info.weightBytes + (this.drafter?.weightBytes ?? 0),
      kvBytesPerToken: model.info.kvBytesPerToken + (this.drafter?.kvBytesPerToken ?? 0),
      kvBytesPerSlot,
      isKvSparse: model.info.isKvSparse && (this.drafter?.isKvSparse ?? true),
      tableBytesPerSlot: model.info.isKvSparse ? tableBytes(model.info.numLayers, config) : 0,
      step: stepCosts(config),
      device: build["device"] ?? "unknown",
      build,
    };
  }

  /** Opens the library and loads the model and its drafter. @throws {LibraryError | NativeError} */
  static load(libraryPath: string, spec: ModelSpec, isBatchInvariant = false, drafter: DrafterSpec | null = null): NativeBackend {
    const library = NativeLibrary.open(libraryPath);
    try {
      library.setBatchInvariant(isBatchInvariant);
      library.limitBufferCache(BUFFER_CACHE_BYTES);
      const model = NativeModel.load(library, spec);
      if (isBatchInvariant) checkInvariant(model);
      return new NativeBackend(library, model, spec, drafter);
    } catch (error) {
      library.close();
      throw error;
    }
  }

  reserve(slots: number, capacity: number): void {
    translated(() => this.drafter?.reserve(slots, capacity));
    translated(() => this.#cache.reserve(slots, capacity));
  }

  resize(slots: number, capacity: number): void {
    // The drafter first: when it cannot be had, the model's cache is as it was.
    translated(() => this.drafter?.resize(slots, capacity));
    translated(() => this.#cache.resize(slots, capacity));
  }

  move(from: number, to: number, length: number): void {
    translated(() => this.#cache.move(from, to, length));
    translated(() => this.drafter?.move(from, to, length));
  }

  clear(slot: number): void {
    translated(() => this.#cache.clear(slot));
    translated(() => this.drafter?.clear(slot));
  }

  release(slot: number): void {
    translated(() => this.#cache.release(slot));
    translated(() => this.drafter?.release(slot));
  }

  get isRecurrent(): boolean {
    return this.#model.info.recurrentBytesPerSlot > 0;
  }

  savePage(slot: number, start: number, length: number, parts: PageParts): BackendPage {
    return translated(() => {
      const own = this.#cache.savePage(slot, start, length, parts.hasState);
      try {
        const history = parts.hasHistory ? this.drafter?.savePage(slot, start, length) ?? null : null;
        return new Page(own, history, parts.hasState, length);
      } catch (error) {
        own.close();
        throw error;
      }
    });
  }

  loadPage(page: BackendPage, slot: number, start: number): void {
    if (!(page instanceof Page)) throw new TypeError("A page of another backend cannot be loaded");
    translated(() => this.#cache.loadPage(page.own, slot, start));
    const { history } = page;
    if (history !== null) translated(() => this.drafter?.loadPage(history, slot, start));
  }

  exportPage(page: BackendPage): PageImage {
    if (!(page instanceof Page)) throw new TypeError("A page of another backend cannot be exported");
    const { own, history, hasState, hasHistory, numTokens } = page;
    const bytes = new Uint8Array(page.bytes);
    translated(() => own.export(bytes.subarray(0, own.bytes)));
    translated(() => history?.export(bytes.subarray(own.bytes)));
    return { hasState, hasHistory, numTokens, bytes, numModelBytes: own.bytes };
  }

  importPage({ hasState, hasHistory, numTokens, bytes, numModelBytes }: PageImage): BackendPage {
    return translated(() => {
      const own = this.#cache.importPage(bytes.subarray(0, numModelBytes), numTokens, hasState);
      try {
        const history = hasHistory ? this.drafter?.importPage(bytes.subarray(numModelBytes), numTokens) ?? null : null;
        return new Page(own, history, hasState, numTokens);
      } catch (error) {
        own.close();
        throw error;
      }
    });
  }

  forward(plan: StepPlan): void {
    translated(() => this.#model.forward(this.#cache, this.#output, plan.tokens, plan.numTokens, plan.rows, plan.numRows));
  }

  keep(slots: readonly number[], kept: readonly number[]): void {
    translated(() => this.#cache.keep(Int32Array.from(slots), Int32Array.from(kept), slots.length));
  }

  get canGoOn(): boolean {
    return this.drafter === null && this.#model.info.canDrawAhead;
  }

  goOn(call: SampleCall, plan: StepPlan): void {
    translated(() => this.#output.start(call));
    // When this fails the draws are made a second time, by `sample`.
    translated(() => this.#model.forwardDrawn(this.#cache, this.#nextOutput, this.#output, plan.rows, plan.numRows));
    this.#hasGoneOn = true;
  }

  sample(call: SampleCall): void {
    if (!this.#hasGoneOn) return translated(() => this.#output.sample(call));
    this.#hasGoneOn = false;
    const drawn = this.#output;
    [this.#output, this.#nextOutput] = [this.#nextOutput, drawn];
    try {
      translated(() => drawn.finish(call));
    } finally {
      drawn.clear();
    }
  }

  readLogits(logits: Float32Array<ArrayBuffer>): void {
    translated(() => this.#output.read(logits));
  }

  memory(): BackendMemory {
    const { activeBytes, peakBytes } = this.#library.memory();
    return { kvBytes: this.#cache.info().bytes + (this.drafter?.kvBytes ?? 0), mlxActiveBytes: activeBytes, mlxPeakBytes: peakBytes };
  }

  close(): void {
    this.drafter?.close();
    this.#output.close();
    this.#nextOutput.close();
    this.#model.close();
    this.#library.close();
  }
}

/** Pages of the model's cache and of its drafter's. */
class Page implements BackendPage {
  constructor(
    readonly own: NativePage,
    readonly history: NativePage | null,
    readonly hasState: boolean,
    readonly numTokens: number,
  ) {}

  get hasHistory(): boolean {
    return this.history !== null;
  }

  get bytes(): number {
    return this.own.bytes + (this.history?.bytes ?? 0);
  }

  free(): void {
    this.own.close();
    this.history?.close();
  }
}

/** MLX's products in half precision add up by the shape of the step. */
function checkInvariant(model: NativeModel): void {
  const { computeType } = model.info;
  if (computeType === "float32") return;
  model.close();
  throw new BackendError(`Batch-invariant results need a model that computes in float32, this one computes in ${computeType}`, false);
}

function translated<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    if (error instanceof NativeError) throw new BackendError(error.message, error.kind === "memory", { cause: error });
    throw error;
  }
}
