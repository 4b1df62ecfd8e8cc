import type { SampleCall } from "../native/step_output.ts";
import type { DraftPlan } from "./draft_plan.ts";
import type { DraftKind, EngineFacts } from "./messages.ts";
import type { StepPlan } from "./step_plan.ts";

/** Bytes held, for the gauges. */
export interface BackendMemory {
  readonly kvBytes: number;
  readonly mlxActiveBytes: number;
  readonly mlxPeakBytes: number;
}

/** An error of a backend. `isOutOfMemory`: the same call may succeed with fewer or shorter rows. */
export class BackendError extends Error {
  override name = "BackendError";
  constructor(message: string, readonly isOutOfMemory: boolean, options?: ErrorOptions) {
    super(message, options);
  }
}

/** What a page holds beside keys and values. */
export interface PageParts {
  /** The recurrent layers' states after its last token: a prefix can end here. Always so where there are no such layers. */
  readonly hasState: boolean;
  /** The drafter's history of its tokens. */
  readonly hasHistory: boolean;
}

/** A copy of some tokens of a slot, which belongs to whoever asked for it. */
export interface BackendPage extends PageParts {
  readonly bytes: number;
  free(): void;
}

/** What a page holds, as bytes that may outlive the process; of use to the same library with the same model and drafter alone. */
export interface PageImage extends PageParts {
  readonly numTokens: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The first so many bytes are the model's; the others are the drafter's history. */
  readonly numModelBytes: number;
}

/**
 * A drafter's model. Its cache has the slots and the capacity of the model's and follows every `reserve`, `resize`, `move`, `clear` and `release` of `ModelBackend`.
 * What the calls of a round are is written at `rl_draft` in `ffi/include/rowlock.h`.
 */
export interface DrafterBackend {
  readonly kind: DraftKind;
  /** Drafts of a round that it was made for. */
  readonly numDraftTokens: number;
  /** Fills a block behind the newest token; null for drafters that go token by token. */
  readonly maskTokenId: number | null;
  /** Launches the plan; features come from the model's last forward, or from the last draft. Does not wait. */
  draft(plan: DraftPlan, source: "model" | "own"): void;
  /** Samples all logits rows of the last draft; waits for it. */
  sample(call: SampleCall): void;
  /** Forgets what slot `slot` of the drafter's cache holds. */
  clear(slot: number): void;
}

/** What the engine needs of a model: the cache's operations, forward, sample. `NativeBackend` is the real one; tests bring a deterministic one. */
export interface ModelBackend {
  readonly facts: Omit<EngineFacts, "loadMs" | "draftKinds" | "maxRowTokens" | "leastBytes">;
  /** null: the model has none. */
  readonly drafter: DrafterBackend | null;
  /** Tells once how far the cache may grow. Where that takes no memory (`isKvSparse`), growing copies nothing from then on. */
  reserve(slots: number, capacity: number): void;
  /** Room for `slots` slots of `capacity` tokens, keeping what still fits. When it throws, the cache is as it was. */
  resize(slots: number, capacity: number): void;
  /** Moves the first `length` tokens of slot `from` over slot `to`; what `from` holds then is not defined. */
  move(from: number, to: number, length: number): void;
  /** Forgets what slot `slot` holds, so that it cannot reach the row that takes the slot next. */
  clear(slot: number): void;
  /** The row of slot `slot` has left, and its memory goes back where the cache is sparse. What the slot holds is not defined any more. */
  release(slot: number): void;
  /** The model has recurrent layers, whose states stand for all of a slot's tokens and do not go back. */
  readonly isRecurrent: boolean;
  /**
   * Copies tokens [start, start + length) of slot `slot`. With `hasState` the slot must be exactly after the last of them, with `hasHistory` the
   * drafter's history must reach so far. Waits for the device.
   */
  savePage(slot: number, start: number, length: number, parts: PageParts): BackendPage;
  /** Writes a page that `savePage` made to the same place of slot `slot`, which may be any. Waits for the device. */
  loadPage(page: BackendPage, slot: number, start: number): void;
  /** A copy of what the page holds. */
  exportPage(page: BackendPage): PageImage;
  /** @throws {BackendError} when the image is none of this model's and drafter's pages. What it says is not looked at. */
  importPage(image: PageImage): BackendPage;
  /**
   * Launches the plan's forward; does not wait for its end. Many of them without a draw in between (chunks of a long prompt) do not pile up:
   * MLX lets only a few operations be in flight and makes the launch wait for the rest.
   */
  forward(plan: StepPlan): void;
  /**
   * After a forward with drafts, before anything else: of slot `slots[i]`'s tokens only the first `kept[i]` ≥ 1 stay. Slots that are not named
   * keep all of theirs.
   */
  keep(slots: readonly number[], kept: readonly number[]): void;
  /** Whether `goOn` works: on a CPU, and without a drafter, which reads what the last forward has left. */
  readonly canGoOn: boolean;
  /**
   * After a forward of one logits row for each row, in place of its `sample`: has the device draw them by `call` as soon as the logits are there,
   * and launches a forward of what they draw, whatever it is. `plan` has the same rows with one token each, which it need not know; a row that
   * draws nothing goes on with some token. Waits for neither. What is drawn is there after the next `sample`, of the same call.
   * @throws {BackendError} when there is no second forward. The next `sample` brings the draws all the same, but what the slots hold is not known.
   */
  goOn(call: SampleCall, plan: StepPlan): void;
  /** Samples all logits rows of the last forward, or of the one before it while `goOn` has been called and not answered; waits for it. */
  sample(call: SampleCall): void;
  /** Copies the logits of the last forward, [rows, vocabulary]; waits for it. */
  readLogits(logits: Float32Array<ArrayBuffer>): void;
  memory(): BackendMemory;
  close(): void;
}
