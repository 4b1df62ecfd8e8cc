import type { StructArray } from "../native/structs.ts";
import { Dry } from "./dry.ts";
import { EditTable } from "./edit_table.ts";
import type { SamplingConfig } from "./sampling.ts";

/**
 * The host's part of one row's sampling: bias, penalties and bans as edits of single logits. Counts are kept up to date with each token, so a
 * step copies packed edits and adds what only this step knows. A row that asks for none of it has no `RowEdits`.
 */
export class RowEdits {
  readonly #table = new EditTable();
  readonly #repeated: RepetitionWindow | null;
  readonly #generatedCounts = new Map<number, number>();
  readonly #dry: Dry | null;
  readonly #hasCountPenalty: boolean;

  private constructor(readonly config: SamplingConfig, readonly stopIds: readonly number[], promptIds: Int32Array) {
    for (const [token, bias] of config.logitBias) this.#table.addBias(token, bias);
    this.#repeated = hasRepetitionPenalty(config) ? new RepetitionWindow(config, this.#table, promptIds) : null;
    this.#hasCountPenalty = hasCountPenalty(config);
    this.#dry = Dry.isActive(config) ? new Dry(config) : null;
  }

  /** null when the configuration changes no logit. */
  static create(config: SamplingConfig, stopIds: readonly number[], promptIds: Int32Array): RowEdits | null {
    const isActive = config.logitBias.size > 0 || hasRepetitionPenalty(config) || hasCountPenalty(config) || Dry.isActive(config) ||
      (config.minTokens > 0 && stopIds.length > 0) || config.badWords.length > 0;
    return isActive ? new RowEdits(config, stopIds, promptIds) : null;
  }

  /** Counts the generated token that is now the last of `tokens[0 … length)`. */
  accept(tokens: Int32Array, length: number): void {
    const token = tokens[length - 1] ?? 0;
    this.#repeated?.slide(tokens, length);
    if (!this.#hasCountPenalty) return;
    const count = (this.#generatedCounts.get(token) ?? 0) + 1;
    this.#generatedCounts.set(token, count);
    this.#table.setSubtract(token, this.config.presencePenalty + this.config.frequencyPenalty * count);
  }

  /** Undoes `accept` of the token that is the last of `tokens[0 … length)`. */
  retract(tokens: Int32Array, length: number): void {
    const token = tokens[length - 1] ?? 0;
    this.#repeated?.slideBack(tokens, length);
    if (!this.#hasCountPenalty) return;
    const count = (this.#generatedCounts.get(token) ?? 0) - 1;
    if (count > 0) this.#generatedCounts.set(token, count);
    else this.#generatedCounts.delete(token);
    this.#table.setSubtract(token, count > 0 ? this.config.presencePenalty + this.config.frequencyPenalty * count : 0);
  }

  /**
   * Writes the edits for the token after `tokens[0 … length)`, `numGenerated` of them generated, to `target` from struct `begin` on.
   * Returns their end. `scratch` is any table; its contents are lost.
   */
  writeTo(target: StructArray, begin: number, tokens: Int32Array, length: number, numGenerated: number, scratch: EditTable): number {
    scratch.clear();
    if (numGenerated < this.config.minTokens) { for (const id of this.stopIds) scratch.addBias(id, -Infinity); }
    for (const words of this.config.badWords) {
      const last = words[words.length - 1];
      if (last !== undefined && endsWith(tokens, length, words, words.length - 1)) scratch.addBias(last, -Infinity);
    }
    this.#dry?.visit(tokens, length, (token, penalty) => scratch.setSubtract(token, penalty));
    return this.#table.writeTo(target, begin, scratch);
  }
}

/** The distinct tokens among the last `repetitionContextSize` of prompt and answer. */
class RepetitionWindow {
  readonly #counts = new Map<number, number>();

  constructor(readonly config: SamplingConfig, readonly table: EditTable, promptIds: Int32Array) {
    const begin = Math.max(0, promptIds.length - config.repetitionContextSize);
    for (const token of promptIds.subarray(begin)) this.#enter(token);
  }

  /** Takes the last token of `tokens[0 … length)` in and lets the one that is now too old go. */
  slide(tokens: Int32Array, length: number): void {
    this.#enter(tokens[length - 1] ?? 0);
    const leaving = tokens[length - 1 - this.config.repetitionContextSize];
    if (leaving !== undefined) this.#leave(leaving);
  }

  /** Undoes `slide`. */
  slideBack(tokens: Int32Array, length: number): void {
    const returning = tokens[length - 1 - this.config.repetitionContextSize];
    if (returning !== undefined) this.#enter(returning);
    this.#leave(tokens[length - 1] ?? 0);
  }

  #leave(token: number): void {
    const count = (this.#counts.get(token) ?? 0) - 1;
    if (count > 0) {
      this.#counts.set(token, count);
    } else {
      this.#counts.delete(token);
      this.table.setRepetition(token, 1);
    }
  }

  #enter(token: number): void {
    const count = (this.#counts.get(token) ?? 0) + 1;
    this.#counts.set(token, count);
    if (count === 1) this.table.setRepetition(token, this.config.repetitionPenalty);
  }
}

function hasRepetitionPenalty(config: SamplingConfig): boolean {
  return config.repetitionPenalty !== 1 && config.repetitionContextSize > 0;
}

function hasCountPenalty(config: SamplingConfig): boolean {
  return config.presencePenalty !== 0 || config.frequencyPenalty !== 0;
}

/** Whether `tokens[0 … length)` ends with the first `count` of `words`. */
function endsWith(tokens: Int32Array, length: number, words: readonly number[], count: number): boolean {
  if (count > length) return false;
  for (let i = 0; i < count; i++) {
    if (tokens[length - count + i] !== words[i]) return false;
  }
  return true;
}
