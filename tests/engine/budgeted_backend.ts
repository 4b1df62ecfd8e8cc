import { BackendError, type BackendPage, type PageParts } from "../../src/engine/backend.ts";
import type { SampleCall } from "../../src/native/step_output.ts";
import type { StepPlan } from "../../src/engine/step_plan.ts";
import { FakeBackend, type FakeFaults } from "./fake_backend.ts";

/** Counts bytes: every call that would hold more than the limit is an error that no engine catches. */
export class BudgetedBackend extends FakeBackend {
  peakBytes = 0;
  /** Makes a step fail for want of memory. */
  isShort: () => boolean = () => false;

  constructor(public limitBytes: number, faults: FakeFaults = {}) {
    super(faults);
  }

  get heldBytes(): number {
    return this.facts.weightBytes + this.memory().kvBytes + [...this.pages].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  override resize(slots: number, capacity: number): void {
    super.resize(slots, capacity);
    this.check(`a cache of ${slots} slots of ${capacity} tokens`);
  }

  override savePage(slot: number, start: number, length: number, parts: PageParts): BackendPage {
    const page = super.savePage(slot, start, length, parts);
    this.check("a page");
    return page;
  }

  override forward(plan: StepPlan): void {
    this.#fallShort();
    super.forward(plan);
  }

  override goOn(call: SampleCall, plan: StepPlan): void {
    this.#fallShort();
    super.goOn(call, plan);
  }

  #fallShort(): void {
    if (!this.isShort()) return;
    // As it may be after a graph that was half evaluated.
    for (const slot of this.slots) slot.fill(-88);
    throw new BackendError("No memory for the step", true);
  }

  /** @throws {RangeError} when more is held than allowed. */
  protected check(what: string): void {
    this.peakBytes = Math.max(this.peakBytes, this.heldBytes);
    if (this.heldBytes > this.limitBytes) {
      throw new RangeError(`With ${what} ${this.heldBytes} bytes are held, ${this.limitBytes} are allowed`);
    }
  }
}
