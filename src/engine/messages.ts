/** What the main thread and the engine worker say to each other: discriminated unions, one message per step for all rows. */
import type { PrefixFigures } from "./prefix_cache.ts";
import type { SamplingConfig } from "./sampling.ts";
import type { ModelSpec } from "../native/model_spec.ts";
import type { FeatureCapture } from "../native/native_model.ts";

/** One sequence to generate. `n > 1` is several of these with their own ids and seeds. */
export interface GenerateRequest {
  /** Unique among live requests; chosen by the caller. */
  readonly id: string;
  readonly promptIds: Int32Array;
  readonly sampling: SamplingConfig;
  /** At most this many tokens; already cut to what the context holds. May be 0: the prompt is only scored. */
  readonly maxTokens: number;
  /** Ids that end the sequence (the stop token itself is reported, with finish reason "stop"). Empty under ignore_eos. */
  readonly stopIds: readonly number[];
  /** Who drafts for it: "none", or a kind that the engine has. @default in every round whichever kind does best for it */
  readonly draftKind?: DraftKind | "none";
  /** false: takes nothing from the prefix cache and leaves nothing there. @default true */
  readonly cachePrompt?: boolean;
  /** Prefixes are shared among requests of the same salt alone. @default that of all who have none */
  readonly cacheSalt?: string;
  /** Wanted logprobs of the prompt itself: -1 none, else the number of alternatives (for echo). */
  readonly promptLogprobs: number;
}

export interface EngineOptions {
  readonly libraryPath: string;
  readonly model: ModelSpec;
  /** Rows that share a step at most. */
  readonly maxBatch: number;
  /** Tokens of one sequence, prompt and answer, at most. */
  readonly maxContext: number;
  /** Requests that may wait for a row. */
  readonly maxQueue: number;
  /** Prompt tokens computed in one step at most, over all rows. */
  readonly prefillChunk: number;
  /** Memory for what finished and running rows have computed, for prompts that begin the same; 0 keeps nothing. @default 0 */
  readonly prefixCacheBytes?: number;
  /** Where the prefix cache outlives the process; needs `prefixCacheBytes`. @default nowhere */
  readonly prefixDisk?: PrefixDiskOptions;
  /** What weights, KV, prefix pages and the temporaries of a step may take together. @default no limit */
  readonly memoryBytes?: number;
  /** A request's logits are the same bits whatever else runs, at some cost of speed. Only on a CPU device. @default false */
  readonly isBatchInvariant?: boolean;
  /** @default no drafts */
  readonly speculation?: SpeculationOptions;
}

/** A folder for pages of the prefix cache, which several engines and processes may share. */
export interface PrefixDiskOptions {
  /** A folder of this user alone. */
  readonly folder: string;
  /** Bytes of all pages in it, at most. */
  readonly maxBytes: number;
}

/** Ways to guess the next tokens of a row, so that one step can verify several. */
export const DRAFT_KINDS = ["ngram", "mtp", "eagle3", "dflash"] as const;
export type DraftKind = (typeof DRAFT_KINDS)[number];

/** A drafter's checkpoint, and how it is used. */
export interface DrafterSpec {
  readonly kind: Exclude<DraftKind, "ngram">;
  readonly spec: ModelSpec;
  /** What every forward of the model has to leave for it. */
  readonly capture: FeatureCapture;
  readonly numDraftTokens: number;
  readonly maskTokenId: number | null;
}

export interface SpeculationOptions {
  /** Read by models/drafters.ts; null drafts with prompt lookup alone. @default null */
  readonly drafter?: DrafterSpec | null;
  /** Drafts of one row in one round, at most. @default what the drafter was made for */
  readonly maxDrafts?: number;
  /** false: every row drafts as much as it can, worth it or not. For tests. @default true */
  readonly isAdaptive?: boolean;
  /** Drafts are drawn as the target draws; false: they are the drafter's best tokens. For comparisons. @default true */
  readonly isCoupled?: boolean;
}

/** Messages that were posted and not read yet: the sender adds one before each, the reader takes it off. Shared memory, one number. */
export type MessageCount = Int32Array<SharedArrayBuffer>;

export type ToEngine =
  /** Without `numUnread` a step ends before the next one's forward starts. */
  | { readonly type: "load"; readonly options: EngineOptions; readonly numUnread?: MessageCount }
  | { readonly type: "submit"; readonly request: GenerateRequest }
  | { readonly type: "cancel"; readonly id: string }
  /** Answered with `limited` when no more than that is held. */
  | { readonly type: "limit"; readonly memoryBytes: number }
  | { readonly type: "shutdown" };

export type FinishReason = "stop" | "length" | "cancelled";

export interface TokenLogprob {
  readonly logprob: number;
  /** Alternatives, most likely first; the chosen token is among them only when it is that likely. */
  readonly top: readonly { readonly token: number; readonly logprob: number }[];
}

/** What one step brought one request. */
export interface RowUpdate {
  readonly id: string;
  readonly tokens: readonly number[];
  /** Same length as `tokens`, or empty when not asked for. */
  readonly logprobs: readonly TokenLogprob[];
  /** Sent once, with the first update, when asked for; the first prompt token has none (null). */
  readonly promptLogprobs?: readonly (TokenLogprob | null)[];
  /** Of the step's drafts, when it had any for the request. */
  readonly round?: DraftRound;
  readonly finishReason: FinishReason | null;
  /** Sent with the first update that has tokens, so that who leaves early knows what went before, and with the finish. */
  readonly timings?: RowTimings;
  /** Prompt tokens that came from the prefix cache, sent with the timings when there are any. */
  readonly cachedTokens?: number;
}

/** How one round of drafting went for one row. */
export interface DraftRound {
  readonly numDrafts: number;
  /** Drafts that are among the update's tokens. */
  readonly numAccepted: number;
}

/** Milliseconds spent by one request. */
export interface RowTimings {
  readonly queueMs: number;
  readonly prefillMs: number;
  readonly decodeMs: number;
}

/** Drafters that threw or whose logits are not made of numbers. The rows went on without drafts. */
export interface DraftFailures {
  readonly count: number;
  /** What the last one said. */
  readonly message: string;
}

/** Running totals and gauges of the engine, sent with every step. */
export interface EngineStats {
  readonly steps: number;
  readonly rowsActive: number;
  readonly rowsWaiting: number;
  readonly promptTokens: number;
  readonly generatedTokens: number;
  /** Rows that took part in the last step, decoding or prefilling. */
  readonly stepRows: number;
  readonly stepMs: number;
  /** Rows that went back to the queue because memory was short; they are computed again. */
  readonly preemptions: number;
  /** What the engine may take; Infinity without a limit. */
  readonly memoryLimitBytes: number;
  readonly kvBytes: number;
  readonly mlxActiveBytes: number;
  readonly mlxPeakBytes: number;
  /** Absent without a prefix cache. */
  readonly prefix?: PrefixFigures;
  /** Absent while there are none. */
  readonly draftFailures?: DraftFailures;
}

/** Of an engine that has not run yet. */
export const NO_STATS: EngineStats = {
  steps: 0,
  rowsActive: 0,
  rowsWaiting: 0,
  promptTokens: 0,
  generatedTokens: 0,
  stepRows: 0,
  stepMs: 0,
  preemptions: 0,
  memoryLimitBytes: 0,
  kvBytes: 0,
  mlxActiveBytes: 0,
  mlxPeakBytes: 0,
};

/** Bytes that a step's temporaries take for a moment. */
export interface StepCosts {
  /** For each token that is computed. */
  readonly bytesPerToken: number;
  /** For each token that is computed and each one of the longest row: scores of attention. */
  readonly bytesPerPair: number;
}

/** Facts that the main thread needs to admit requests. */
export interface EngineFacts {
  readonly vocabSize: number;
  readonly weightBytes: number;
  /** Of the model and its drafter. */
  readonly kvBytesPerToken: number;
  /** The tokens that rows have written take memory, not slots and capacity of the cache. @default false */
  readonly isKvSparse?: boolean;
  /** Recurrent states of one row. @default 0 */
  readonly kvBytesPerSlot?: number;
  /** What the system needs to keep track of one row's memory: page tables. @default nothing that counts */
  readonly tableBytesPerSlot?: number;
  /** What a step takes beside weights and KV. @default nothing that counts */
  readonly step?: StepCosts;
  /** Tokens of one request, prompt and answer, at most, as context and memory allow. @default the context */
  readonly maxRowTokens?: number;
  /** What the engine has to have for one row of that length; more than it may take when not even the shortest one fits. @default the weights */
  readonly leastBytes?: number;
  readonly device: string;
  /** What the native library tells about itself: `NativeLibrary.buildInfo`. @default nothing */
  readonly build?: Readonly<Record<string, string>>;
  /** Who can draft. */
  readonly draftKinds?: readonly DraftKind[];
  readonly loadMs: number;
}

export type FromEngine =
  | { readonly type: "limited" }
  | { readonly type: "ready"; readonly facts: EngineFacts }
  | { readonly type: "step"; readonly updates: readonly RowUpdate[]; readonly stats: EngineStats }
  /** Figures that have changed without a step. */
  | { readonly type: "stats"; readonly stats: EngineStats }
  /** These requests failed and are gone; the others go on. */
  | { readonly type: "failed"; readonly ids: readonly string[]; readonly code: EngineErrorCode; readonly message: string }
  /** The engine cannot go on (also: loading failed). */
  | { readonly type: "fatal"; readonly message: string }
  /** The last message, after a shutdown: everything is freed. */
  | { readonly type: "closed" };

export type EngineErrorCode = "queue_full" | "engine_error" | "row_broken" | "out_of_memory" | "shutting_down";
