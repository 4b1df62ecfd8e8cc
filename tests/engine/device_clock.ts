import type { StepPlan } from "../../src/engine/step_plan.ts";
import type { FakeFaults } from "./fake_backend.ts";

/** A clock that goes on while the host waits for a device, which computes one forward after the other and never waits for the host's sake. */
export class DeviceClock {
  nowMs = 0;
  #freeMs = 0;
  /** When each forward with logits is over, oldest first. */
  readonly #endsMs: number[] = [];
  /** For a `FakeBackend`. */
  readonly faults: FakeFaults = {
    forward: (plan) => {
      this.#freeMs = Math.max(this.#freeMs, this.nowMs) + this.forwardMs(plan);
      if (plan.numOutputs > 0) this.#endsMs.push(this.#freeMs);
      return null;
    },
    sample: () => {
      this.nowMs = Math.max(this.nowMs, this.#endsMs.shift() ?? 0);
      return null;
    },
  };

  constructor(readonly forwardMs: (plan: StepPlan) => number) {}
}
