/** A backend whose calls are timed. */
import type { BackendMemory, BackendPage, ModelBackend, PageImage, PageParts } from "../../../src/engine/backend.ts";
import type { StepPlan } from "../../../src/engine/step_plan.ts";
import type { SampleCall } from "../../../src/native/step_output.ts";
import type { ThreadClock } from "../../../src/native/thread_clock.ts";

/** Milliseconds of the last calls. */
export interface StepCalls {
  /** Building the graph and launching it: what the engine's thread computes of it. The rest of the call it waits, for MLX takes only a few operations ahead. */
  launchMs: number;
  /** The whole call of the forward. */
  forwardMs: number;
  /** The draw, and the wait for the logits where that was not done before. */
  sampleMs: number;
  /** The wait apart and the copy that comes with it; 0 unless the backend is told to wait for the logits before the draw. */
  extraMs: number;
}

export class TimedBackend implements ModelBackend {
  readonly facts;
  readonly drafter = null;
  readonly last: StepCalls = { launchMs: 0, forwardMs: 0, sampleMs: 0, extraMs: 0 };
  /** Waits for the logits before the draw, so that the two can be told apart. */
  isSplit = false;
  #logits = new Float32Array(0);

  constructor(readonly inner: ModelBackend, readonly clock: ThreadClock) {
    this.facts = inner.facts;
  }

  forward(plan: StepPlan): void {
    this.#launch(() => this.inner.forward(plan));
  }

  /** There are no logits to wait for apart from the draws where the device goes on with these. */
  get canGoOn(): boolean {
    return this.inner.canGoOn && !this.isSplit;
  }

  goOn(call: SampleCall, plan: StepPlan): void {
    this.#launch(() => this.inner.goOn(call, plan));
  }

  #launch(act: () => void): void {
    const [startMs, startCpuMs] = [performance.now(), this.clock.nowMs()];
    act();
    this.last.launchMs = this.clock.nowMs() - startCpuMs;
    this.last.forwardMs = performance.now() - startMs;
  }

  sample(call: SampleCall): void {
    this.last.extraMs = 0;
    if (this.isSplit) this.#waitApart(call.numRows);
    const startMs = performance.now();
    this.inner.sample(call);
    this.last.sampleMs = performance.now() - startMs;
  }

  /** Logits can be waited for only by copying them. */
  #waitApart(numRows: number): void {
    const numLogits = numRows * this.facts.vocabSize;
    if (this.#logits.length < numLogits) this.#logits = new Float32Array(numLogits);
    const logits = this.#logits.subarray(0, numLogits);
    const startMs = performance.now();
    this.inner.readLogits(logits);
    this.last.extraMs = performance.now() - startMs;
  }

  reserve(slots: number, capacity: number): void {
    this.inner.reserve(slots, capacity);
  }

  resize(slots: number, capacity: number): void {
    this.inner.resize(slots, capacity);
  }

  move(from: number, to: number, length: number): void {
    this.inner.move(from, to, length);
  }

  release(slot: number): void {
    this.inner.release(slot);
  }

  clear(slot: number): void {
    this.inner.clear(slot);
  }

  keep(slots: readonly number[], kept: readonly number[]): void {
    this.inner.keep(slots, kept);
  }

  get isRecurrent(): boolean {
    return this.inner.isRecurrent;
  }

  savePage(slot: number, start: number, length: number, parts: PageParts): BackendPage {
    return this.inner.savePage(slot, start, length, parts);
  }

  loadPage(page: BackendPage, slot: number, start: number): void {
    this.inner.loadPage(page, slot, start);
  }

  exportPage(page: BackendPage): PageImage {
    return this.inner.exportPage(page);
  }

  importPage(image: PageImage): BackendPage {
    return this.inner.importPage(image);
  }

  readLogits(logits: Float32Array<ArrayBuffer>): void {
    this.inner.readLogits(logits);
  }

  memory(): BackendMemory {
    return this.inner.memory();
  }

  close(): void {
    this.inner.close();
  }
}
