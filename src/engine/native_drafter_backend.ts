import type { NativeCache } from "../native/native_cache.ts";
import { NativeDrafter } from "../native/native_drafter.ts";
import type { NativePage } from "../native/native_page.ts";
import type { NativeModel } from "../native/native_model.ts";
import { type SampleCall, StepOutput } from "../native/step_output.ts";
import type { DrafterBackend } from "./backend.ts";
import type { DraftPlan } from "./draft_plan.ts";
import type { DrafterSpec, DraftKind } from "./messages.ts";

/** A drafter in the native library, beside its model. */
export class NativeDrafterBackend implements DrafterBackend {
  readonly kind: DraftKind;
  readonly numDraftTokens: number;
  readonly maskTokenId: number | null;
  readonly #drafter: NativeDrafter;
  readonly #cache: NativeCache;
  readonly #output: StepOutput;

  /**
   * Loads the drafter; from now on the model's forwards leave what it reads.
   * @param modelOutput where they leave it.
   * @throws {NativeError} when it does not fit the model.
   */
  constructor(model: NativeModel, readonly modelOutput: StepOutput, drafter: DrafterSpec) {
    this.kind = drafter.kind;
    this.numDraftTokens = drafter.numDraftTokens;
    this.maskTokenId = drafter.maskTokenId;
    this.#drafter = NativeDrafter.load(model, drafter.spec);
    this.#cache = this.#drafter.newCache();
    this.#output = new StepOutput(model.library);
    model.capture(drafter.capture);
  }

  get weightBytes(): number {
    return this.#drafter.info.weightBytes;
  }

  get kvBytesPerToken(): number {
    return this.#drafter.info.kvBytesPerToken;
  }

  get isKvSparse(): boolean {
    return this.#drafter.info.isKvSparse;
  }

  get kvBytes(): number {
    return this.#cache.info().bytes;
  }

  draft(plan: DraftPlan, source: "model" | "own"): void {
    const { tokens, numTokens, rows, numRows, sourceRows, numSourceRows } = plan;
    const output = source === "model" ? this.modelOutput : this.#output;
    this.#drafter.draft(this.#cache, this.#output, { tokens, numTokens, rows, numRows, source: output, sourceRows, numSourceRows });
  }

  sample(call: SampleCall): void {
    this.#output.sample(call);
  }

  reserve(slots: number, capacity: number): void {
    this.#cache.reserve(slots, capacity);
  }

  resize(slots: number, capacity: number): void {
    this.#cache.resize(slots, capacity);
  }

  move(from: number, to: number, length: number): void {
    this.#cache.move(from, to, length);
  }

  savePage(slot: number, start: number, length: number): NativePage {
    return this.#cache.savePage(slot, start, length, true);
  }

  loadPage(page: NativePage, slot: number, start: number): void {
    this.#cache.loadPage(page, slot, start);
  }

  importPage(bytes: Uint8Array<ArrayBuffer>, numTokens: number): NativePage {
    return this.#cache.importPage(bytes, numTokens, true);
  }

  clear(slot: number): void {
    this.#cache.clear(slot);
  }

  release(slot: number): void {
    this.#cache.release(slot);
  }

  /** Drafter and cache are closed with the model. */
  close(): void {
    this.#output.close();
  }
}
