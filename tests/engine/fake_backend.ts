/**
 * A model whose next token is a hash of what its cache really holds for the row and of the sampling that really arrived for it. Any mix-up of
 * slots, offsets, configurations, positions, edits or masks changes the text.
 */
import { ROW_BROKEN, ROW_VERIFY, ROW_WORDS, SampledRows } from "../../src/native/structs.ts";
import type { SampleCall } from "../../src/native/step_output.ts";
import { BackendError } from "../../src/engine/backend.ts";
import type { BackendMemory, BackendPage, ModelBackend, PageImage, PageParts } from "../../src/engine/backend.ts";
import { BREAKING_TOKEN, drawFake, FAKE_VOCAB_SIZE, fakeLogits, historyHash } from "./fake_draw.ts";
import type { FakeDrafterBackend } from "./fake_drafter_backend.ts";
import type { StepPlan } from "../../src/engine/step_plan.ts";

/** What memory holds that nobody has written: a token that no row ever has. */
const GARBAGE = -77;

/** Faults to inject, each asked before the call does anything. */
export interface FakeFaults {
  forward?: (plan: StepPlan) => string | null;
  sample?: (numCalls: number) => string | null;
  goOn?: (plan: StepPlan) => string | null;
  move?: (from: number, to: number) => string | null;
  savePage?: (slot: number, start: number) => string | null;
  loadPage?: (slot: number, start: number) => string | null;
  /** Tokens that all slots together may have room for. */
  maxTokens?: number;
}

/** Tokens of a slot, and with `hasState` how many tokens its recurrent state stood for. */
interface FakePage extends BackendPage {
  readonly tokens: Int32Array;
  readonly history: readonly Int32Array[];
}

export class FakeBackend implements ModelBackend {
  isRecurrent = false;
  readonly pages = new Set<BackendPage>(); // that nobody has freed
  readonly facts: ModelBackend["facts"] = { vocabSize: FAKE_VOCAB_SIZE, weightBytes: 1000, kvBytesPerToken: 8, device: "fake" };
  drafter: FakeDrafterBackend | null = null;
  /** The history up to each token of the last forward. */
  features: Int32Array[] = [];
  slots: Int32Array[] = [];
  capacity = 0;
  isClosed = false;
  numMoves = 0;
  numSamples = 0;
  readonly clearedSlots: number[] = [];
  /** Tokens that each slot's recurrent state stands for, and how many of them the last forward may take back. */
  readonly #states = new Map<number, { length: number; verified: number }>();
  /** Rows of each forward. */
  readonly forwards: { slot: number; offset: number; count: number; outputs: number }[][] = [];
  /** One hash of the row's history for each wanted logits row; null where the row is broken. */
  #outputs: (number | null)[] = [];
  /** Logits were launched and not drawn from: what the cache holds must not change. */
  #isInFlight = false;
  /** Of the forward before the last one, when that goes on with it. */
  #drawn: { readonly call: SampleCall; readonly sampled: SampledRows } | null = null;
  canGoOn = true;
  numGoOns = 0;
  #reserved = [Infinity, Infinity] as [number, number];

  constructor(readonly faults: FakeFaults = {}) {}

  reserve = (...size: [slots: number, capacity: number]): unknown => this.#reserved = size;

  resize(slots: number, capacity: number): void {
    this.#assertLanded("resize");
    if (slots > this.#reserved[0] || capacity > this.#reserved[1]) {
      throw new RangeError(`Not reserved: ${slots} slots of ${capacity} tokens`);
    }
    if (slots * capacity > (this.faults.maxTokens ?? Infinity)) {
      throw new BackendError(`No memory for ${slots} slots of ${capacity} tokens`, true);
    }
    this.slots = Array.from({ length: slots }, (_, slot) => {
      const grown = new Int32Array(capacity).fill(GARBAGE);
      grown.set(this.slots[slot]?.subarray(0, capacity) ?? []);
      return grown;
    });
    this.capacity = capacity;
  }

  move(from: number, to: number, length: number): void {
    this.#assertLanded("move");
    const fault = this.faults.move?.(from, to);
    if (fault) throw new BackendError(fault, false);
    this.numMoves++;
    this.#slot(to).set(this.#slot(from).subarray(0, length));
    // Whoever still reads the slot that was left gets garbage.
    this.#slot(from).fill(GARBAGE);
    this.#states.set(to, { length: this.#state(from).length, verified: 0 });
    if (this.#state(to).length !== length) throw new Error(`Slot ${from} moves with ${length} of ${this.#state(to).length} tokens`);
    for (const state of this.#states.values()) state.verified = 0;
    this.drafter?.move(from, to, length);
  }

  clear(slot: number): void {
    this.#assertLanded("clear");
    this.clearedSlots.push(slot);
    this.#slot(slot).fill(GARBAGE);
    this.#states.set(slot, { length: 0, verified: 0 });
    for (const state of this.#states.values()) state.verified = 0;
    this.drafter?.clear(slot);
  }

  /** What is left there stays, as in the part of a page that cannot be given back. */
  release(slot: number): void {
    this.#assertLanded("release");
    this.#slot(slot);
  }

  keep(slots: readonly number[], kept: readonly number[]): void {
    this.#assertLanded("keep");
    for (const [i, slot] of slots.entries()) {
      const state = this.#state(slot);
      const count = kept[i] ?? 0;
      if (count < 1 || count > state.verified) throw new Error(`Slot ${slot} keeps ${count} of ${state.verified} verified tokens`);
      state.length -= state.verified - count;
    }
    for (const state of this.#states.values()) state.verified = 0;
  }

  savePage(slot: number, start: number, length: number, parts: PageParts): BackendPage {
    this.#assertLanded("savePage");
    const fault = this.faults.savePage?.(slot, start);
    if (fault) throw new BackendError(fault, true);
    const tokens = this.#slot(slot).slice(start, start + length);
    if (tokens.length !== length || tokens.includes(GARBAGE)) {
      throw new Error(`Slot ${slot} does not hold ${length} tokens from ${start} on`);
    }
    const state = this.#state(slot);
    if (this.isRecurrent && parts.hasState && state.length !== start + length) {
      throw new Error(`Slot ${slot} is after ${state.length} tokens, its state is saved as if it were after ${start + length}`);
    }
    const history = parts.hasHistory ? this.drafter?.savePage(slot, start, length) ?? [] : [];
    return this.#keepPage(parts, tokens, history);
  }

  #keepPage({ hasState, hasHistory }: PageParts, tokens: Int32Array, history: readonly Int32Array[]): BackendPage {
    const page: FakePage = { hasState, hasHistory, tokens, history, bytes: 8 * tokens.length, free: () => this.#free(page) };
    this.pages.add(page);
    return page;
  }

  /** The model's bytes are the tokens; the history's are the lengths of its entries and their tokens. */
  exportPage(page: BackendPage): PageImage {
    if (!this.pages.has(page)) throw new Error("A page is exported that was freed");
    const { tokens, history, hasState, hasHistory } = page as FakePage;
    const words = Int32Array.from([...tokens, ...history.flatMap((entry) => [entry.length, ...entry])]);
    return { hasState, hasHistory, numTokens: tokens.length, bytes: new Uint8Array(words.buffer), numModelBytes: 4 * tokens.length };
  }

  importPage(image: PageImage): BackendPage {
    if (image.numModelBytes !== 4 * image.numTokens) throw new BackendError(`A page has ${image.numModelBytes} bytes`, false);
    const words = new Int32Array(image.bytes.slice().buffer);
    const history: Int32Array[] = [];
    for (let at = image.numTokens; at < words.length; at += 1 + (words[at] ?? 0)) {
      history.push(words.slice(at + 1, at + 1 + (words[at] ?? 0)));
    }
    return this.#keepPage(image, words.slice(0, image.numTokens), history);
  }

  loadPage(page: BackendPage, slot: number, start: number): void {
    this.#assertLanded("loadPage");
    const fault = this.faults.loadPage?.(slot, start);
    if (fault) throw new BackendError(fault, false);
    if (!this.pages.has(page)) throw new Error(`Slot ${slot} gets a page that was freed`);
    const { tokens, history, hasState, hasHistory } = page as FakePage;
    this.#slot(slot).set(tokens, start);
    if (hasState) this.#states.set(slot, { length: start + tokens.length, verified: 0 });
    if (hasHistory) this.drafter?.loadPage(history, slot, start);
  }

  forward(plan: StepPlan): void {
    this.#assertLanded("forward");
    this.#run(plan, plan.tokens);
  }

  goOn(call: SampleCall, plan: StepPlan): void {
    if (!this.#isInFlight || this.#drawn !== null) throw new Error("goOn is called without a forward that is computed, or with two");
    const fault = this.faults.goOn?.(plan);
    if (fault) throw new BackendError(fault, false);
    const sampled = new SampledRows();
    this.#drawAll({ ...call, sampled });
    this.#run(plan, Int32Array.from({ length: call.numRows }, (_, row) => Math.max(0, sampled.token(row))));
    this.#drawn = { call, sampled };
    this.numGoOns++;
  }

  #run(plan: StepPlan, tokens: Int32Array): void {
    const fault = this.faults.forward?.(plan);
    if (fault) throw new BackendError(fault, false);
    this.#outputs = [];
    this.features = [];
    const rows = [];
    let packed = 0;
    for (let i = 0; i < plan.numRows; i++) {
      const [slot = -1, offset = -1, count = -1, outputs = -1, flags = -1] = plan.rows.int32.subarray(i * ROW_WORDS, (i + 1) * ROW_WORDS);
      if (count < 1 || outputs < 0 || outputs > count) throw new Error(`Row ${i} has count ${count} and outputs ${outputs}`);
      if (slot <= (rows[i - 1]?.slot ?? -1)) throw new Error(`Row ${i} has slot ${slot}, not in slot order`);
      rows.push({ slot, offset, count, outputs });
      if (offset + count > this.capacity) throw new Error(`Row ${i} writes up to ${offset + count}, the capacity is ${this.capacity}`);
      this.#advanceState(slot, offset, count, flags);
      this.#slot(slot).set(tokens.subarray(packed, packed + count), offset);
      packed += count;
      for (let end = offset + 1; end <= offset + count; end++) this.features.push(this.#slot(slot).slice(0, end));
      for (let end = offset + count - outputs + 1; end <= offset + count; end++) {
        // As a NaN behind the attention mask would.
        const isPoisoned = this.#slot(slot).includes(BREAKING_TOKEN, end);
        this.#outputs.push(isPoisoned ? null : historyHash(this.#slot(slot), end));
      }
    }
    if (packed !== plan.numTokens) throw new Error(`Rows take ${packed} of ${plan.numTokens} tokens`);
    this.forwards.push(rows);
    this.#isInFlight = this.#outputs.length > 0;
  }

  sample(call: SampleCall): void {
    const drawn = this.#drawn;
    this.#drawn = null;
    this.#isInFlight = drawn !== null;
    const fault = this.faults.sample?.(this.numSamples++);
    if (fault) throw new BackendError(fault, false);
    if (drawn === null) return this.#drawAll(call);
    if (call !== drawn.call) throw new Error("The draws of another call are on their way");
    call.sampled.reserve(call.numRows, call.hasAlternatives);
    call.sampled.structs.copyFrom(drawn.sampled.structs, 0, call.numRows, 0);
    call.sampled.topTokens.set(drawn.sampled.topTokens.subarray(0, call.sampled.topTokens.length));
    call.sampled.topLogprobs.set(drawn.sampled.topLogprobs.subarray(0, call.sampled.topLogprobs.length));
  }

  #drawAll(call: SampleCall): void {
    if (call.numRows !== this.#outputs.length) throw new Error(`${call.numRows} rows are sampled, ${this.#outputs.length} have logits`);
    call.sampled.reserve(call.numRows, call.hasAlternatives);
    for (const [row, history] of this.#outputs.entries()) {
      if (history === null) call.sampled.write(row, -1, 0, ROW_BROKEN, 0);
      else drawFake(call, row, history);
    }
  }

  readLogits(logits: Float32Array<ArrayBuffer>): void {
    if (logits.length !== this.#outputs.length * FAKE_VOCAB_SIZE) {
      throw new Error(`${logits.length} logits are read of ${this.#outputs.length} rows`);
    }
    for (const [row, history] of this.#outputs.entries()) {
      logits.set(history === null ? new Float32Array(FAKE_VOCAB_SIZE).fill(NaN) : fakeLogits(history), row * FAKE_VOCAB_SIZE);
    }
  }

  memory(): BackendMemory {
    return { kvBytes: 8 * this.slots.length * this.capacity, mlxActiveBytes: 1, mlxPeakBytes: 2 };
  }

  close(): void {
    this.isClosed = true;
  }

  #assertLanded(call: string): void {
    if (this.#isInFlight) throw new Error(`${call} is called while a forward is computed`);
  }

  #free(page: BackendPage): void {
    if (!this.pages.delete(page)) throw new Error("A page is freed twice");
  }

  /** A recurrent state goes on where it is; only at offset 0 does it start anew. */
  #advanceState(slot: number, offset: number, count: number, flags: number): void {
    const state = this.#state(slot);
    if (offset !== 0 && offset !== state.length) throw new Error(`Slot ${slot} goes on at ${offset}, its state is after ${state.length}`);
    this.#states.set(slot, { length: offset + count, verified: flags === ROW_VERIFY ? count : 0 });
  }

  #state(slot: number): { length: number; verified: number } {
    const state = this.#states.get(slot) ?? { length: 0, verified: 0 };
    this.#states.set(slot, state);
    return state;
  }

  #slot(slot: number): Int32Array {
    const found = this.slots[slot];
    if (!found) throw new Error(`Slot ${slot} is used, there are ${this.slots.length}`);
    return found;
  }
}
