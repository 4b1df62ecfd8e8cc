import type { Failure } from "./failure.ts";
import type { RowUpdate } from "./messages.ts";

/** What one step brought. */
export class StepReport {
  readonly updates: RowUpdate[] = [];
  readonly failures: Failure[] = [];
  /** Rows that took part, decoding or prefilling. */
  numStepRows = 0;
  numPromptTokens = 0;
  /** Rows that went back to the queue for want of memory. */
  numPreemptions = 0;
  numGeneratedTokens = 0;
}
