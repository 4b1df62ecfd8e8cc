/**
 * Speculative rounds with arg-max drafts, written from `rowlock.h` alone: what the golden values pin. Rows draft and verify together; each has
 * its own history, budget and acceptance.
 */
import type { LoadedDrafter } from "../../src/models/drafter.ts";
import { loadDrafter } from "../../src/models/drafters.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { findLibrary, NativeLibrary } from "../../src/native/library.ts";
import type { NativeCache } from "../../src/native/native_cache.ts";
import { NativeDrafter } from "../../src/native/native_drafter.ts";
import { NativeModel } from "../../src/native/native_model.ts";
import { StepOutput } from "../../src/native/step_output.ts";
import { DRAFT_ROW_WORDS, ROW_VERIFY, ROW_WORDS, StructArray } from "../../src/native/structs.ts";
import { argmax } from "./golden_model.ts";

export interface Round {
  readonly drafts: readonly number[];
  readonly accepted: number;
  readonly emitted: readonly number[];
  readonly draftLogits: readonly Float32Array[];
}

/** One prompt on its way. */
export interface DraftRow {
  readonly slot: number;
  readonly tokens: number[];
  readonly output: number[];
  readonly rounds: Round[];
  readonly firstLogits: Float32Array;
  /** Entries that the drafter's history keeps. */
  historyLen: number;
  /** Features of the last forward that have not joined the history. */
  newFeatures: number[];
  /** mtp, eagle3: the token that each of them is paired with. */
  newTokens: number[];
}

interface Drafting {
  readonly row: DraftRow;
  readonly numDrafts: number;
  readonly drafts: number[];
  readonly logits: Float32Array[];
  /** Entries that drafting appended, and the feature row of the last one in the drafter's output. */
  numAppended: number;
  feature: number;
}

interface Entries {
  readonly slot: number;
  readonly offset: number;
  readonly tokens: readonly number[];
  readonly numOutputs: number;
  readonly features: readonly number[];
}

export class Speculation implements Disposable {
  readonly #library = NativeLibrary.open(findLibrary());
  readonly #model: NativeModel;
  readonly #drafter: NativeDrafter;
  readonly #loaded: LoadedDrafter;
  readonly #cache: NativeCache;
  readonly #history: NativeCache;
  readonly #forwardOutput = new StepOutput(this.#library);
  readonly #draftOutput = new StepOutput(this.#library);
  readonly #vocabSize: number;

  /** @param changes keys of the drafter's flat config that are not to be as they are. */
  constructor(modelFolder: string, drafterFolder: string, numSlots: number, changes: Readonly<Record<string, string | number>> = {}) {
    const loaded = loadModel(modelFolder, { dtype: "float32" });
    const drafter = loadDrafter(drafterFolder, loaded);
    this.#loaded = { ...drafter, spec: { ...drafter.spec, config: { ...drafter.spec.config, ...changes } } };
    this.#model = NativeModel.load(this.#library, loaded.spec);
    this.#model.capture(this.#loaded.capture);
    this.#drafter = NativeDrafter.load(this.#model, this.#loaded.spec);
    this.#cache = this.#model.newCache();
    this.#history = this.#drafter.newCache();
    this.#cache.resize(numSlots, 96);
    this.#history.resize(numSlots, 96);
    this.#vocabSize = loaded.vocabSize;
  }

  /** Bytes of the drafter's weights in memory. */
  get weightBytes(): number {
    return this.#drafter.info.weightBytes;
  }

  /** Prefills all prompts in one forward; each has its first token then. */
  start(prompts: readonly (readonly number[])[]): DraftRow[] {
    const logits = this.#forward(prompts.map((tokens, slot) => [slot, 0, tokens, 1]), false);
    let feature = 0;
    return prompts.map((prompt, slot) => {
      const first = argmax(logits[slot]!);
      const tokens = [...prompt, first];
      const newFeatures = prompt.map(() => feature++);
      return {
        slot,
        tokens,
        output: [first],
        rounds: [],
        firstLogits: logits[slot]!,
        historyLen: 0,
        newFeatures,
        newTokens: tokens.slice(1),
      };
    });
  }

  /** Last position's features of each prompt, after `start`. */
  promptFeatures(rows: readonly DraftRow[]): Float32Array[] {
    const { modelFeatureWidth: width } = this.#drafter.info;
    const all = new Float32Array(width * rows.reduce((sum, row) => sum + row.newFeatures.length, 0));
    this.#forwardOutput.readFeatures(all);
    return rows.map((row) => all.subarray(row.newFeatures.at(-1)! * width, (row.newFeatures.at(-1)! + 1) * width));
  }

  /** Drafts and verifies once for all rows that have less than `maxTokens`. Returns false when there are none. */
  round(rows: readonly DraftRow[], blockSize: number, maxTokens: number): boolean {
    const drafting = rows.filter((row) => row.output.length < maxTokens).map((row): Drafting => {
      const numDrafts = Math.min(blockSize, maxTokens - row.output.length + 1) - 1;
      return { row, numDrafts, drafts: [], logits: [], numAppended: 0, feature: 0 };
    });
    if (drafting.length === 0) return false;
    if (this.#loaded.kind === "dflash") this.#draftBlocks(drafting);
    else this.#draftChains(drafting);
    this.#verify(drafting, maxTokens);
    return true;
  }

  #draftBlocks(drafting: readonly Drafting[]): void {
    const { maskTokenId } = this.#loaded;
    const entries = drafting.map(({ row, numDrafts }) => ({
      slot: row.slot,
      offset: row.historyLen,
      tokens: [row.tokens.at(-1)!, ...new Array<number>(numDrafts).fill(maskTokenId!)],
      numOutputs: numDrafts,
      features: row.newFeatures,
    }));
    const logits = this.#draft(entries, this.#forwardOutput);
    for (const { row, numDrafts, drafts, logits: own } of drafting) {
      row.historyLen += row.newFeatures.length;
      own.push(...logits.splice(0, numDrafts));
      drafts.push(...own.map(argmax));
    }
  }

  #draftChains(drafting: readonly Drafting[]): void {
    const pending = drafting.map(({ row }) => ({
      slot: row.slot,
      offset: row.historyLen,
      tokens: row.newTokens,
      numOutputs: 1,
      features: row.newFeatures,
    }));
    let logits = this.#draft(pending, this.#forwardOutput);
    let numEntries = 0;
    for (const part of drafting) {
      part.row.historyLen += part.row.newTokens.length;
      numEntries += part.row.newTokens.length;
      part.feature = numEntries - 1;
    }
    let drafted = drafting;
    while (true) {
      drafted.forEach((part, i) => {
        if (part.numDrafts === 0) return;
        part.logits.push(logits[i]!);
        part.drafts.push(argmax(logits[i]!));
      });
      drafted = drafting.filter(({ drafts, numDrafts }) => drafts.length < numDrafts);
      if (drafted.length === 0) return;
      const next = drafted.map(({ row, numAppended, drafts, feature }) => ({
        slot: row.slot,
        offset: row.historyLen + numAppended,
        tokens: [drafts.at(-1)!],
        numOutputs: 1,
        features: [feature],
      }));
      logits = this.#draft(next, this.#draftOutput);
      drafted.forEach((part, i) => (part.numAppended++, part.feature = i));
    }
  }

  #verify(drafting: readonly Drafting[], maxTokens: number): void {
    const blocks = drafting.map(({ row, drafts }) =>
      [row.slot, row.tokens.length - 1, [row.tokens.at(-1)!, ...drafts], drafts.length + 1] as const
    );
    const logits = this.#forward(blocks, true);
    const kept = new Int32Array(drafting.length);
    let first = 0;
    for (const [i, { row, drafts, logits: draftLogits, numAppended }] of drafting.entries()) {
      const choices = logits.slice(first, first + drafts.length + 1).map(argmax);
      const wrong = drafts.findIndex((draft, j) => draft !== choices[j]);
      const accepted = wrong < 0 ? drafts.length : wrong;
      const emitted = choices.slice(0, accepted + 1).slice(0, maxTokens - row.output.length);
      const numKept = this.#loaded.kind === "mtp" ? Math.min(accepted, numAppended) : 0;
      row.historyLen += numKept;
      row.newTokens = choices.slice(numKept, accepted + 1);
      row.newFeatures = Array.from({ length: accepted + 1 - numKept }, (_, j) => first + numKept + j);
      row.tokens.push(...emitted);
      row.output.push(...emitted);
      row.rounds.push({ drafts, accepted, emitted, draftLogits });
      kept[i] = accepted + 1;
      first += drafts.length + 1;
    }
    this.#cache.keep(Int32Array.from(drafting, ({ row }) => row.slot), kept, drafting.length);
  }

  #forward(
    rows: readonly (readonly [slot: number, offset: number, tokens: readonly number[], numOutputs: number])[],
    isVerify: boolean,
  ): Float32Array[] {
    const structs = new StructArray(ROW_WORDS, rows.length);
    rows.forEach(([slot, offset, tokens, numOutputs], i) =>
      structs.int32.set([slot, offset, tokens.length, numOutputs, isVerify ? ROW_VERIFY : 0], i * ROW_WORDS)
    );
    const tokens = Int32Array.from(rows.flatMap(([, , ids]) => [...ids]));
    this.#model.forward(this.#cache, this.#forwardOutput, tokens, tokens.length, structs, rows.length);
    return this.#read(this.#forwardOutput, rows.reduce((sum, [, , , numOutputs]) => sum + numOutputs, 0));
  }

  #draft(entries: readonly Entries[], source: StepOutput): Float32Array[] {
    const rows = new StructArray(DRAFT_ROW_WORDS, entries.length);
    entries.forEach(({ slot, offset, tokens, numOutputs, features }, i) =>
      rows.int32.set([slot, offset, tokens.length, numOutputs, features.length], i * DRAFT_ROW_WORDS)
    );
    const tokens = Int32Array.from(entries.flatMap((entry) => [...entry.tokens]));
    const sourceRows = Int32Array.from(entries.flatMap((entry) => [...entry.features]));
    const call = { tokens, numTokens: tokens.length, rows, numRows: entries.length, source, sourceRows, numSourceRows: sourceRows.length };
    this.#drafter.draft(this.#history, this.#draftOutput, call);
    return this.#read(this.#draftOutput, entries.reduce((sum, { numOutputs }) => sum + numOutputs, 0));
  }

  #read(output: StepOutput, numRows: number): Float32Array[] {
    if (numRows === 0) return [];
    const logits = new Float32Array(numRows * this.#vocabSize);
    output.read(logits);
    return Array.from({ length: numRows }, (_, i) => logits.subarray(i * this.#vocabSize, (i + 1) * this.#vocabSize));
  }

  [Symbol.dispose](): void {
    this.#forwardOutput.close();
    this.#draftOutput.close();
    this.#model.close();
    this.#library.close();
  }
}
