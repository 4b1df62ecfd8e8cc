/** Memory for the rows of a step: what is given up when there is too little, and whether there is enough for one more. */
import { BackendError } from "./backend.ts";
import type { EngineCore } from "./engine_core.ts";
import { failureOf } from "./failure.ts";
import { roomyCapacity, roomyLength } from "./kv_room.ts";
import { leave, preempt } from "./leave.ts";
import { denseUse, type KvSize, type KvUse, roundedCapacity, sparseUse } from "./memory_budget.ts";
import type { Sequence } from "./sequence.ts";
import type { StepReport } from "./step_report.ts";

/**
 * Whether one more row may join: so that all of them can grow by a quarter, or as far as they ever will, without anybody giving way. A row
 * that is alone may always try. In a sparse cache every row takes what it is long; in others every slot is as long as the longest row, so one
 * long row has to wait until few are left. Prefix pages do not count, since they give way.
 */
export function hasRoomFor(core: EngineCore, next: Sequence): boolean {
  const { backend, budget, scheduler: { rows } } = core;
  if (rows.numRows === 0) return true;
  const all = [...rows.sequences, next];
  if (backend.facts.isKvSparse) return budget.excess(sparseUse(all.length, grownLengths(core, all, roomyLength)), 0) <= 0;
  const capacity = Math.min(roomyCapacity(longestOf(all)), roundedCapacity(Math.max(...all.map(({ maxLength }) => maxLength))));
  return budget.excess(denseUse({ slots: all.length, capacity }), 0) <= 0;
}

/**
 * Sizes the cache for the rows within the budget. When that is too small, or the memory cannot be had, prefix pages give way first, the least
 * recently used before others; then rows, the youngest first: they go back to the queue. The oldest row stays, so that every one comes to
 * its end. Only a row that does not even fit alone fails.
 */
export function makeRoom(core: EngineCore, report: StepReport): void {
  const { budget, prefixes, room, scheduler: { rows } } = core;
  for (let fault = sizeCache(core); fault !== null; fault = sizeCache(core)) {
    if (!isShortage(fault)) {
      if (!failWithoutRoom(core, fault, report)) break;
      continue;
    }
    const youngest = rows.sequences.reduce((a, b) => a.arrival > b.arrival ? a : b);
    if (rows.numRows > 1) preempt(core, [youngest], report);
    else if (prefixes.bytes > 0) prefixes.giveUp();
    else failAlone(core, youngest, fault, report);
  }
  prefixes.limitBytes = Math.max(0, budget.roomBytes - budget.kvBytes(useOf(core, room.size)));
}

/** Whether all rows may grow by the token of the step that is on its way, and go on, without anything having to be done about the cache. */
export function hasRoomToGoOn(core: EngineCore): boolean {
  const { budget, prefixes, room, scheduler: { rows }, speculation: { maxDrafts } } = core;
  const longest = longestOf(rows.sequences) + 1;
  if (room.needsGrowth(rows.numRows, longest) || room.isLoose(rows.numRows, longest)) return false;
  return budget.excess(useOf(core, room.size, (length) => length + 1 + maxDrafts), prefixes.bytes) <= 0;
}

/**
 * A step could not have the memory that it needed: all rows go back to the queue, and are computed again within less. A row that is alone fails
 * when there is nothing left to give up for it.
 */
export function giveAllUp(core: EngineCore, fault: unknown, report: StepReport): void {
  const { budget, prefixes, room, scheduler } = core;
  const sequences = scheduler.rows.sequences.filter(({ outcome }) => outcome === null);
  const [only, ...others] = sequences;
  budget.lower(budget.kvBytes(useOf(core, room.size)) + prefixes.bytes);
  // Nobody knows what is in the cache now: nothing is moved, and whoever stays in the table leaves it next.
  room.release();
  if (only !== undefined && others.length === 0 && prefixes.bytes === 0) return failAlone(core, only, fault, report);
  prefixes.giveUp();
  scheduler.preempt(sequences);
  report.numPreemptions += sequences.length;
  leave(core, report);
}

export function isShortage(error: unknown): boolean {
  return error instanceof BackendError && error.isOutOfMemory;
}

/** Makes the cache as large as it has to be, and larger where there is room. @returns what was in the way, or null. */
function sizeCache(core: EngineCore): unknown {
  const { budget, prefixes, room, scheduler: { rows }, speculation: { maxDrafts } } = core;
  const [numRows, longest] = [rows.numRows, longestOf(rows.sequences)];
  const excess = (size: KvSize): number => budget.excess(useOf(core, size), prefixes.bytes);
  const isWithin = (size: KvSize): boolean => excess(size) <= 0;
  if (!room.needsGrowth(numRows, longest + maxDrafts) && isWithin(room.size)) return shrinkWhenLoose(core, longest);
  const roomy = room.roomySize(numRows, longest + maxDrafts);
  for (const size of [roomy, { ...roomy, slots: numRows }]) {
    if (numRows > 0 && isWithin(size) && resize(core, size) === null) return null;
  }
  // Without room for drafts rows draft less.
  if (!room.needsGrowth(numRows, longest) && isWithin(room.size)) return null;
  const tight = room.tightSize(numRows, longest);
  // What others could not have tells nothing about a row that is alone: it is tried.
  if (numRows <= 1) budget.recover();
  prefixes.evict(excess(tight));
  if (!isWithin(tight)) prefixes.giveUp();
  if (!room.needsGrowth(numRows, longest) && isWithin(room.size)) return null;
  if (isWithin(tight)) return resize(core, tight);
  const [needed, free] = [budget.kvBytes(useOf(core, tight)), budget.roomBytes].map((bytes) => `${(bytes / 1e6).toFixed(1)} MB`);
  return new BackendError(`A cache for ${numRows} rows of up to ${longest} tokens takes ${needed}, there is room for ${free}`, true);
}

/** What a cache of this size takes memory for while it holds the rows that are there and their drafts, grown by `grow`. */
function useOf(core: EngineCore, size: KvSize, grow?: (length: number) => number): KvUse {
  const { backend, scheduler: { rows } } = core;
  return backend.facts.isKvSparse ? sparseUse(size.slots, grownLengths(core, rows.sequences, grow)) : denseUse(size);
}

/** How long the rows may be soon: with drafts or by `grow`, and never longer than they may become. */
function grownLengths(core: EngineCore, sequences: readonly Sequence[], grow = (length: number): number => length): number[] {
  const { maxDrafts } = core.speculation;
  return sequences.map(({ length, maxLength }) => Math.min(maxLength, Math.max(length + maxDrafts, grow(length))));
}

/** @returns what was in the way, or null. */
function resize(core: EngineCore, size: KvSize): unknown {
  try {
    core.room.resize(size);
    return null;
  } catch (error) {
    if (isShortage(error)) core.budget.lower(core.budget.kvBytes(useOf(core, size)));
    return error;
  }
}

/** A cache that cannot be made smaller does as it is. */
function shrinkWhenLoose({ room, scheduler: { rows } }: EngineCore, longest: number): null {
  try {
    room.shrinkWhenLoose(rows.numRows, longest);
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
  }
  return null;
}

/** Not for want of memory: the rows that need another size fail, the others go on. @returns whether there were any. */
function failWithoutRoom(core: EngineCore, fault: unknown, report: StepReport): boolean {
  const { room, scheduler: { rows } } = core;
  const failing = rows.sequences.filter(({ slot, length }) => slot >= room.slots || length > room.capacity);
  for (const sequence of failing) sequence.outcome ??= { type: "failed", ...failureOf(fault) };
  leave(core, report);
  return failing.length > 0;
}

/** What one row has found missing need not be missing for the next one. */
function failAlone(core: EngineCore, sequence: Sequence, fault: unknown, report: StepReport): void {
  sequence.outcome ??= { type: "failed", ...failureOf(fault) };
  leave(core, report);
  core.budget.recover();
}

function longestOf(sequences: readonly Sequence[]): number {
  return sequences.reduce((max, { length }) => Math.max(max, length), 0);
}
