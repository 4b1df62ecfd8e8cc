import type { BackendPage } from "../../src/engine/backend.ts";
import type { SampleCall } from "../../src/native/step_output.ts";
import type { StepPlan } from "../../src/engine/step_plan.ts";
import { BudgetedBackend } from "./budgeted_backend.ts";

/** Takes memory for the tokens that were written to its slots until they are released, whatever the capacity. */
export class SparseBackend extends BudgetedBackend {
  numResizes = 0;
  #written: number[] = [];

  constructor(...given: ConstructorParameters<typeof BudgetedBackend>) {
    super(...given);
    Object.assign(this.facts, { isKvSparse: true });
  }

  override memory(): ReturnType<BudgetedBackend["memory"]> {
    return { ...super.memory(), kvBytes: this.facts.kvBytesPerToken * this.#written.reduce((sum, length) => sum + length, 0) };
  }

  override resize(slots: number, capacity: number): void {
    super.resize(slots, capacity);
    this.numResizes++;
    this.#written = Array.from({ length: slots }, (_, slot) => Math.min(capacity, this.#written[slot] ?? 0));
  }

  override forward(plan: StepPlan): void {
    super.forward(plan);
    this.#writeLast();
  }

  override goOn(call: SampleCall, plan: StepPlan): void {
    super.goOn(call, plan);
    this.#writeLast();
  }

  #writeLast(): void {
    for (const { slot, offset, count } of this.forwards.at(-1) ?? []) this.#write(slot, offset, offset + count);
    this.check("a step");
  }

  override loadPage(page: BackendPage, slot: number, start: number): void {
    super.loadPage(page, slot, start);
    this.#write(slot, start, start + page.bytes / this.facts.kvBytesPerToken);
    this.check("a page in a slot");
  }

  override move(from: number, to: number, length: number): void {
    super.move(from, to, length);
    this.#written[to] = length;
    this.#written[from] = 0;
    this.check("a row that moved");
  }

  override clear(slot: number): void {
    super.clear(slot);
    this.#written[slot] = 0;
  }

  override release(slot: number): void {
    super.release(slot);
    this.#written[slot] = 0;
  }

  #write(slot: number, start: number, end: number): void {
    this.#written[slot] = start === 0 ? end : Math.max(end, this.#written[slot] ?? 0);
  }
}
