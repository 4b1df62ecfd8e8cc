import {
  EDIT_WORDS,
  P_LESS,
  SampledRows,
  SAMPLING_FIELD as FIELD,
  SAMPLING_WORDS,
  StructArray,
  TEMPERATURE_LAST,
} from "../native/structs.ts";
import type { SampleCall } from "../native/step_output.ts";
import { EditTable } from "./edit_table.ts";
import type { RowColumn } from "./rows.ts";
import { GREEDY, type SamplingConfig } from "./sampling.ts";
import type { Sequence } from "./sequence.ts";

const INT32_MAX = 2 ** 31 - 1;

/** How a draw differs from the row's next one. */
export interface DrawOptions {
  /** The best token, whatever the row's temperature. @default false */
  readonly isGreedy?: boolean;
  /** Tokens that come between the row's newest one and the drawn one. @default 0 */
  readonly ahead?: number;
  /** false: only the token is of interest, whatever the row asks for. @default true */
  readonly hasLogprobs?: boolean;
}

/**
 * The packed configurations of the rows, aligned with the row table, and the call that samples one step. A configuration is packed once, when
 * its row joins; a step writes the position and where the row's edits and mask lie.
 */
export class SamplingBatch implements RowColumn {
  readonly #packed = new StructArray(SAMPLING_WORDS);
  readonly #allowed: (Uint32Array | null)[] = [];
  readonly #scratch = new EditTable();
  readonly #maskWords: number;
  readonly #call = {
    rows: new StructArray(SAMPLING_WORDS),
    numRows: 0,
    edits: new StructArray(EDIT_WORDS),
    numEdits: 0,
    masks: new Uint32Array(0),
    numMasks: 0,
    hasAlternatives: false,
    sampled: new SampledRows(),
  };
  readonly #discarded = new StructArray(SAMPLING_WORDS, 1);

  constructor(readonly vocabSize: number) {
    this.#maskWords = Math.ceil(vocabSize / 32);
    packSampling(this.#discarded, 0, GREEDY);
  }

  get length(): number {
    return this.#allowed.length;
  }

  append(sequence: Sequence): void {
    const row = this.length;
    const config = sequence.request.sampling;
    this.#packed.reserve(row + 1);
    packSampling(this.#packed, row, config);
    this.#allowed.push(config.allowedTokenIds === null ? null : packMask(config.allowedTokenIds, this.#maskWords));
  }

  move(from: number, to: number): void {
    this.#packed.move(from, to);
    this.#allowed[to] = this.#allowed[from] ?? null;
  }

  truncate(length: number): void {
    this.#allowed.length = length;
  }

  fault(row: number, sequence: Sequence): string | null {
    const expected = new StructArray(SAMPLING_WORDS, 1);
    packSampling(expected, 0, sequence.request.sampling);
    const found = this.#packed.uint32.subarray(row * SAMPLING_WORDS, (row + 1) * SAMPLING_WORDS);
    const differing = expected.uint32.findIndex((word, i) => word !== found[i]);
    if (differing >= 0) return `word ${differing} of the packed sampling is ${found[differing]}, its own is ${expected.uint32[differing]}`;
    const hasMask = this.#allowed[row] !== null;
    return hasMask === (sequence.request.sampling.allowedTokenIds !== null) ? null : `it ${hasMask ? "has" : "has no"} mask`;
  }

  /** Starts the call of a step. */
  begin(): void {
    this.#call.numRows = this.#call.numEdits = this.#call.numMasks = 0;
    this.#call.hasAlternatives = false;
  }

  /** Adds the row's next draw, by its own configuration. */
  add(sequence: Sequence, { ahead = 0, hasLogprobs = true, isGreedy = false }: DrawOptions = {}): void {
    const row = sequence.slot;
    const call = this.#call;
    const edits = this.#writeEdits(sequence);
    const mask = this.#writeMask(row);
    const at = call.numRows * SAMPLING_WORDS;
    call.rows.copyFrom(this.#packed, row, 1, call.numRows++);
    call.rows.uint32[at + FIELD.position] = sequence.numGenerated + ahead;
    call.rows.int32[at + FIELD.editsBegin] = edits.begin;
    call.rows.int32[at + FIELD.editsEnd] = edits.end;
    call.rows.int32[at + FIELD.mask] = mask;
    if (isGreedy) call.rows.float32[at + FIELD.temperature] = 0;
    if (!hasLogprobs) call.rows.int32[at + FIELD.numTopLogprobs] = -1;
    else if (sequence.request.sampling.numTopLogprobs > 0) call.hasAlternatives = true;
  }

  /** Adds a logits row whose draw nobody wants (a scored prompt position): the cheapest configuration. */
  addDiscarded(): void {
    this.#call.rows.copyFrom(this.#discarded, 0, 1, this.#call.numRows++);
  }

  get call(): SampleCall {
    return this.#call;
  }

  #writeEdits(sequence: Sequence): { readonly begin: number; readonly end: number } {
    const begin = this.#call.numEdits;
    if (sequence.edits === null) return { begin, end: begin };
    const { tokens, length, numGenerated } = sequence;
    const end = sequence.edits.writeTo(this.#call.edits, begin, tokens, length, numGenerated, this.#scratch);
    this.#call.numEdits = end;
    return { begin, end };
  }

  #writeMask(row: number): number {
    const allowed = this.#allowed[row];
    if (!allowed) return -1;
    const call = this.#call;
    const numWords = (call.numMasks + 1) * this.#maskWords;
    if (call.masks.length < numWords) {
      const grown = new Uint32Array(2 * numWords);
      grown.set(call.masks);
      call.masks = grown;
    }
    call.masks.set(allowed, call.numMasks * this.#maskWords);
    return call.numMasks++;
  }
}

/** Packs what does not change from step to step; position, edits and mask are those of a row without any. */
export function packSampling(target: StructArray, row: number, config: SamplingConfig): void {
  const { uint32, int32, float32 } = target;
  const at = row * SAMPLING_WORDS;
  // Every system that Deno runs on is little-endian: the low word comes first.
  uint32[at + FIELD.seed] = Number(BigInt.asUintN(32, config.seed));
  uint32[at + FIELD.seed + 1] = Number(BigInt.asUintN(32, config.seed >> 32n));
  uint32[at + FIELD.position] = 0;
  uint32[at + FIELD.flags] = (config.pLess ? P_LESS : 0) | (config.temperatureLast ? TEMPERATURE_LAST : 0);
  float32[at + FIELD.temperature] = config.temperature;
  float32[at + FIELD.topP] = config.topP;
  int32[at + FIELD.topK] = Math.min(config.topK, INT32_MAX);
  float32[at + FIELD.minP] = config.minP;
  float32[at + FIELD.topNSigma] = config.topNSigma;
  float32[at + FIELD.typicalP] = config.typicalP;
  float32[at + FIELD.xtcProbability] = config.xtcProbability;
  float32[at + FIELD.xtcThreshold] = config.xtcThreshold;
  int32[at + FIELD.numTopLogprobs] = config.numTopLogprobs;
  int32[at + FIELD.editsBegin] = 0;
  int32[at + FIELD.editsEnd] = 0;
  int32[at + FIELD.mask] = -1;
}

function packMask(allowedTokenIds: readonly number[], numWords: number): Uint32Array {
  const mask = new Uint32Array(numWords);
  for (const id of allowedTokenIds) mask[id >>> 5] = (mask[id >>> 5] ?? 0) | (1 << (id & 31));
  return mask;
}
