/**
 * A drafter whose logits are the target's own when everything that reaches it is right: entries in order, each token with the features of the
 * token before it, draws with the row's configuration and position. Whatever is out of place is noted in `faults`, and makes it draft badly.
 */
import { DRAFT_ROW_WORDS } from "../../src/native/structs.ts";
import type { SampleCall } from "../../src/native/step_output.ts";
import type { DrafterBackend } from "../../src/engine/backend.ts";
import type { DraftPlan } from "../../src/engine/draft_plan.ts";
import type { FakeBackend } from "./fake_backend.ts";
import { drawFake, historyHash } from "./fake_draw.ts";

export type FakeDrafterKind = "mtp" | "eagle3" | "dflash";

const MASK = 209;

export class FakeDrafterBackend implements DrafterBackend {
  readonly numDraftTokens = 3;
  readonly maskTokenId: number | null;
  readonly faults: string[] = [];
  /** By slot: the history that each entry stands for. */
  readonly #slots = new Map<number, Int32Array[]>();
  #features: Int32Array[] = [];
  #outputs: number[] = [];

  /** @param isWrong which histories it continues wrongly. */
  constructor(readonly kind: FakeDrafterKind, readonly model: FakeBackend, readonly isWrong: (history: Int32Array) => boolean) {
    this.maskTokenId = kind === "dflash" ? MASK : null;
    model.drafter = this;
  }

  draft(plan: DraftPlan, source: "model" | "own"): void {
    const features = source === "model" ? this.model.features : this.#features;
    this.#features = [];
    this.#outputs = [];
    let [token, feature, previous] = [0, 0, -1];
    for (let i = 0; i < plan.numRows; i++) {
      const words = plan.rows.int32.subarray(i * DRAFT_ROW_WORDS, (i + 1) * DRAFT_ROW_WORDS);
      const [slot = -1, offset = -1, count = -1, outputs = -1, numFeatures = -1] = words;
      if (slot <= previous) this.#fault(`Slot ${slot} comes after ${previous}`);
      previous = slot;
      const tokens = plan.tokens.slice(token, token + count);
      const own = Array.from(plan.sourceRows.subarray(feature, feature + numFeatures), (row) => features[row] ?? new Int32Array(0));
      token += count;
      feature += numFeatures;
      if (this.maskTokenId === null) this.#addChain(slot, offset, tokens, outputs, own);
      else this.#addBlock(slot, offset, tokens, outputs, own);
    }
    if (token !== plan.numTokens || feature !== plan.numSourceRows) this.#fault(`${token} tokens and ${feature} features are packed`);
  }

  sample(call: SampleCall): void {
    if (call.numRows !== this.#outputs.length) this.#fault(`${call.numRows} rows are sampled of ${this.#outputs.length}`);
    call.sampled.reserve(call.numRows, call.hasAlternatives);
    for (const [row, history] of this.#outputs.entries()) drawFake(call, row, history);
  }

  savePage(slot: number, start: number, length: number): readonly Int32Array[] {
    const entries = this.#entries(slot).slice(start, start + length);
    if (entries.length !== length) this.#fault(`Slot ${slot} has no entries ${start} … ${start + length - 1}`);
    return entries;
  }

  loadPage(history: readonly Int32Array[], slot: number, start: number): void {
    this.#entriesUpTo(slot, start).push(...history);
  }

  clear(slot: number): void {
    this.#slots.set(slot, []);
  }

  move(from: number, to: number, length: number): void {
    this.#slots.set(to, this.#entries(from).slice(0, length));
    this.#slots.set(from, []);
  }

  #addChain(slot: number, offset: number, tokens: Int32Array, outputs: number, features: readonly Int32Array[]): void {
    const entries = this.#entriesUpTo(slot, offset);
    if (features.length !== tokens.length) this.#fault(`${tokens.length} tokens come with ${features.length} features`);
    for (const [i, token] of tokens.entries()) {
      const history = this.#checked(features[i], offset + i);
      if (entries.length > 0 && !isSame(entries.at(-1)!, history)) this.#fault(`Entry ${offset + i} follows one of another text`);
      const extended = Int32Array.from([...history, token]);
      entries.push(extended);
      this.#features.push(extended);
      if (i >= tokens.length - outputs) this.#outputs.push(this.#continued(extended));
    }
  }

  /** A block knows the newest token only: its further drafts are guesses at what follows. */
  #addBlock(slot: number, offset: number, tokens: Int32Array, outputs: number, features: readonly Int32Array[]): void {
    const entries = this.#entriesUpTo(slot, offset);
    for (const [i, feature] of features.entries()) {
      const history = this.#checked(feature, offset + i);
      if (entries.length > 0 && !isSame(entries.at(-1)!, history.slice(0, -1))) {
        this.#fault(`Entry ${offset + i} follows one of another text`);
      }
      entries.push(history);
    }
    const [newest = -1, ...masks] = tokens;
    if (outputs !== masks.length || masks.some((mask) => mask !== MASK)) {
      this.#fault(`A block of ${tokens.join(" ")} wants ${outputs} outputs`);
    }
    const history = Int32Array.from([...entries.at(-1) ?? [], newest]);
    for (let i = 0; i < outputs; i++) this.#outputs.push(i === 0 ? this.#continued(history) : i);
  }

  /** The features must be those of token `position` of a text that begins as the entries before it do. */
  #checked(feature: Int32Array | undefined, position: number): Int32Array {
    if (feature?.length !== position + 1) this.#fault(`Entry ${position} gets the features of token ${(feature?.length ?? 0) - 1}`);
    return feature ?? new Int32Array(0);
  }

  #continued(history: Int32Array): number {
    return (historyHash(history, history.length) ?? 0) ^ Number(this.isWrong(history));
  }

  #entriesUpTo(slot: number, offset: number): Int32Array[] {
    const entries = this.#entries(slot);
    if (offset > entries.length) this.#fault(`Slot ${slot} goes on at entry ${offset}, it has ${entries.length}`);
    entries.length = Math.min(entries.length, offset);
    return entries;
  }

  #entries(slot: number): Int32Array[] {
    const entries = this.#slots.get(slot) ?? [];
    this.#slots.set(slot, entries);
    return entries;
  }

  #fault(text: string): void {
    this.faults.push(text);
  }
}

function isSame(a: Int32Array, b: Int32Array): boolean {
  return a.length === b.length && a.every((token, i) => token === b[i]);
}
