import { DecodeManager } from "./decode.ts";
import { type ChunkLimit, PrefillManager } from "./prefill.ts";
import { type RowColumn, type RowMove, RowTable } from "./rows.ts";
import type { Sequence } from "./sequence.ts";
import { StepPlan } from "./step_plan.ts";

export interface SchedulerLimits {
  readonly maxBatch: number;
  readonly maxQueue: number;
  readonly prefillChunk: number;
  readonly vocabSize: number;
}

/** Says whether there is memory for one more row, that of this sequence. */
export type RoomCheck = (next: Sequence) => boolean;

/** Who waits, who has a row, and what the next step computes. Rows are given first come first served; touches no device. */
export class Scheduler {
  readonly rows: RowTable;
  readonly #waiting: Sequence[] = [];
  readonly #prefill: PrefillManager;
  readonly #decode = new DecodeManager();
  readonly #plan = new StepPlan();
  readonly #otherPlan = new StepPlan();

  constructor(readonly limits: SchedulerLimits, ...columns: readonly RowColumn[]) {
    this.rows = new RowTable(limits.maxBatch, columns);
    this.#prefill = new PrefillManager(limits.prefillChunk, limits.vocabSize);
  }

  get numWaiting(): number {
    return this.#waiting.length;
  }

  get waiting(): readonly Sequence[] {
    return this.#waiting;
  }

  /** Rows that have not ended: others are there until the device is through with them. */
  get numActive(): number {
    return this.rows.sequences.reduce((count, { outcome }) => count + (outcome === null ? 1 : 0), 0);
  }

  find(id: string): Sequence | undefined {
    const hasId = (sequence: Sequence): boolean => sequence.id === id;
    return this.rows.sequences.find(hasId) ?? this.#waiting.find(hasId);
  }

  /** A request may join the queue. A free row counts as room: it is taken at the next step. */
  canEnqueue(): boolean {
    return this.numWaiting < this.limits.maxQueue + Math.max(0, this.limits.maxBatch - this.numActive);
  }

  enqueue(sequence: Sequence): void {
    this.#waiting.push(sequence);
  }

  /** The request that waits longest may have a row. Nobody overtakes it when there is no memory for it: it would never get it. */
  canAdmit(hasRoomFor: RoomCheck = () => true): boolean {
    const [next] = this.#waiting;
    return next !== undefined && this.rows.numRows < this.limits.maxBatch && hasRoomFor(next);
  }

  /** Gives the request that waits longest a row. */
  admit(): Sequence {
    const sequence = this.#waiting.shift();
    if (sequence === undefined) throw new RangeError("Cannot admit a request: nobody waits");
    this.rows.append([sequence]);
    return sequence;
  }

  /** Takes these rows back into the queue, in front of all that came later. Returns the moves that the cache must make. */
  preempt(sequences: readonly Sequence[]): RowMove[] {
    const moves = this.rows.compact((sequence) => !sequences.includes(sequence));
    for (const sequence of sequences) sequence.preempt();
    this.#waiting.push(...sequences);
    this.#waiting.sort((a, b) => a.arrival - b.arrival);
    return moves;
  }

  /** Takes the sequences that have an outcome out of the queue and returns them. */
  leaveQueue(): Sequence[] {
    const leaving = this.#waiting.filter((sequence) => sequence.outcome !== null);
    if (leaving.length > 0) this.#waiting.splice(0, this.#waiting.length, ...this.#waiting.filter((sequence) => sequence.outcome === null));
    return leaving;
  }

  /** Takes the rows that have an outcome out of the table and returns them, with the moves that the cache must make. */
  leaveRows(): { readonly left: Sequence[]; readonly moves: RowMove[] } {
    const left = this.rows.sequences.filter((sequence) => sequence.outcome !== null);
    return { left, moves: left.length === 0 ? [] : this.rows.compact((sequence) => sequence.outcome === null) };
  }

  /** What the next step computes: every row that decodes, and one chunk of prompts. Empty when there are no rows. Valid until the next call. */
  schedule(limit?: ChunkLimit): StepPlan {
    this.#plan.clear();
    this.#decode.schedule(this.rows, this.#plan);
    this.#prefill.schedule(this.rows, this.#plan, limit);
    this.#plan.pack();
    return this.#plan;
  }

  /** What the step after `plan` computes when all of its rows go on with what they draw. `plan` stays as it is. */
  scheduleAfter(plan: StepPlan): StepPlan {
    const next = plan === this.#plan ? this.#otherPlan : this.#plan;
    next.follow(plan);
    return next;
  }
}
