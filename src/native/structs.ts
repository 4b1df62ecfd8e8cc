/**
 * The structs that a step hands over, packed in buffers that are made once and reused. Numbers are in the machine's own byte order, as typed
 * arrays write them.
 */
import { STRUCT_BYTES, TOP_LOGPROBS_MAX } from "./symbols.ts";

/** `flags` of `rl_sampling`. */
export const P_LESS = 1;
export const TEMPERATURE_LAST = 2;

/** `flags` of `rl_row`: `NativeCache.keep` may undo some of the row's tokens. */
export const ROW_VERIFY = 1;
/** Tokens that such a row may have: the library keeps a recurrent state for each. */
export const VERIFY_MAX_TOKENS = 64;

/** `flags` of `rl_sampled`: the row had no logit above -inf. */
export const ROW_BROKEN = 1;

/** `flags` of `rl_page_save`: the recurrent layers' states too. */
export const PAGE_STATE = 1;

/** 32-bit words of one struct, and where its fields lie, in words. */
export const SAMPLING_WORDS = STRUCT_BYTES.rl_sampling / 4;
export const EDIT_WORDS = STRUCT_BYTES.rl_edit / 4;
/** slot, offset, count, outputs, flags. */
export const ROW_WORDS = STRUCT_BYTES.rl_row / 4;
/** slot, offset, count, outputs, number of feature rows. */
export const DRAFT_ROW_WORDS = STRUCT_BYTES.rl_draft_row / 4;
const SAMPLED_WORDS = STRUCT_BYTES.rl_sampled / 4;

/** Word offsets in `rl_sampling`; the 64-bit seed takes words 0 and 1. */
export const SAMPLING_FIELD = {
  seed: 0,
  position: 2,
  flags: 3,
  temperature: 4,
  topP: 5,
  topK: 6,
  minP: 7,
  topNSigma: 8,
  typicalP: 9,
  xtcProbability: 10,
  xtcThreshold: 11,
  numTopLogprobs: 12,
  editsBegin: 13,
  editsEnd: 14,
  mask: 15,
} as const;

/** An array of structs seen as words of each kind over one buffer, which grows by doubling. */
export class StructArray {
  #bytes = new ArrayBuffer(0);
  int32 = new Int32Array(0);
  uint32 = new Uint32Array(0);
  float32 = new Float32Array(0);

  constructor(readonly wordsPerStruct: number, capacity = 0) {
    this.reserve(capacity);
  }

  get bytes(): ArrayBuffer {
    return this.#bytes;
  }

  get capacity(): number {
    return this.int32.length / this.wordsPerStruct;
  }

  /** Makes room for `capacity` structs; keeps the contents. */
  reserve(capacity: number): void {
    if (capacity <= this.capacity) return;
    const bytes = new ArrayBuffer(Math.max(capacity, 2 * this.capacity) * this.wordsPerStruct * 4);
    new Uint8Array(bytes).set(new Uint8Array(this.#bytes));
    this.#bytes = bytes;
    this.int32 = new Int32Array(bytes);
    this.uint32 = new Uint32Array(bytes);
    this.float32 = new Float32Array(bytes);
  }

  /** Copies struct `from` over struct `to`. */
  move(from: number, to: number): void {
    const words = this.wordsPerStruct;
    this.int32.copyWithin(to * words, from * words, (from + 1) * words);
  }

  /** Copies `count` structs of `source`, from `begin`, to `at` here. */
  copyFrom(source: StructArray, begin: number, count: number, at: number): void {
    const words = this.wordsPerStruct;
    this.reserve(at + count);
    this.int32.set(source.int32.subarray(begin * words, (begin + count) * words), at * words);
  }
}

/** What `rl_sample` writes: one `rl_sampled` for each row and, when asked for, its alternatives. */
export class SampledRows {
  readonly structs = new StructArray(SAMPLED_WORDS);
  topTokens = new Int32Array(0);
  topLogprobs = new Float32Array(0);

  reserve(numRows: number, hasAlternatives: boolean): void {
    this.structs.reserve(numRows);
    const numAlternatives = this.structs.capacity * TOP_LOGPROBS_MAX;
    if (!hasAlternatives || this.topTokens.length >= numAlternatives) return;
    this.topTokens = new Int32Array(numAlternatives);
    this.topLogprobs = new Float32Array(numAlternatives);
  }

  token(row: number): number {
    return this.structs.int32[row * SAMPLED_WORDS] ?? -1;
  }

  logprob(row: number): number {
    return this.structs.float32[row * SAMPLED_WORDS + 1] ?? Number.NaN;
  }

  isBroken(row: number): boolean {
    return ((this.structs.uint32[row * SAMPLED_WORDS + 2] ?? 0) & ROW_BROKEN) !== 0;
  }

  /** Tokens that the filters left to draw from. */
  numKept(row: number): number {
    return this.structs.int32[row * SAMPLED_WORDS + 3] ?? 0;
  }

  /** For tests: writes what the library would. */
  write(row: number, token: number, logprob: number, flags: number, numKept: number): void {
    const at = row * SAMPLED_WORDS;
    this.structs.int32[at] = token;
    this.structs.float32[at + 1] = logprob;
    this.structs.uint32[at + 2] = flags;
    this.structs.int32[at + 3] = numKept;
  }
}
