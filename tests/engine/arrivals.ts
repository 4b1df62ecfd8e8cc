/** Requests that arrive over time, run by the real scheduler on a virtual clock: what the steps would compute costs what it would cost. */
import { SamplingBatch } from "../../src/engine/sampling_batch.ts";
import { Scheduler } from "../../src/engine/scheduler.ts";
import { Sequence } from "../../src/engine/sequence.ts";
import { FAKE_VOCAB_SIZE } from "./fake_draw.ts";
import { request } from "./requests.ts";

export interface Arrival {
  readonly atMs: number;
  readonly promptLength: number;
  readonly maxTokens: number;
}

export interface SimulationLimits {
  readonly maxBatch: number;
  readonly prefillChunk: number;
}

/** How it went for one arrival. */
export interface Course {
  readonly arrival: Arrival;
  readonly firstTokenMs: number;
  /** The longest time between two tokens, or from the row to the first one when there is no other. */
  readonly longestGapMs: number;
  /** Steps in which it had a row, up to the one that brought the first token. */
  readonly numPrefillSteps: number;
  /** Prompt tokens that rows before it had left when it got its row. */
  readonly older: readonly number[];
}

export interface Simulation {
  readonly courses: readonly Course[];
  /** Of every step: rows, prompt tokens, and prompt tokens that were there to be computed. */
  readonly steps: readonly { readonly numRows: number; readonly numLive: number; readonly numPrompt: number; readonly numWanted: number }[];
}

/** A step of a small model on a CPU: so much for itself, so much for a prompt token. */
export const STEP_MS = 20;
export const PROMPT_TOKEN_MS = 4;

interface Watched {
  readonly arrival: Arrival;
  readonly sequence: Sequence;
  readonly tokenMs: number[];
  numPrefillSteps: number;
  older: number[] | null;
}

export function simulate(arrivals: readonly Arrival[], { maxBatch, prefillChunk }: SimulationLimits): Simulation {
  const scheduler = new Scheduler(
    { maxBatch, prefillChunk, maxQueue: Infinity, vocabSize: FAKE_VOCAB_SIZE },
    new SamplingBatch(FAKE_VOCAB_SIZE),
  );
  const watched = arrivals.map((arrival, i): Watched => {
    const promptIds = Array<number>(arrival.promptLength).fill(1);
    const sequence = new Sequence(request(`r${i}`, { promptIds, maxTokens: arrival.maxTokens }), i, arrival.atMs);
    return { arrival, sequence, tokenMs: [], numPrefillSteps: 0, older: null };
  });
  const steps = [];
  let [nowMs, numEnqueued] = [0, 0];
  while (watched.some(({ sequence }) => sequence.outcome === null)) {
    for (; numEnqueued < watched.length && watched[numEnqueued]!.arrival.atMs <= nowMs; numEnqueued++) {
      scheduler.enqueue(watched[numEnqueued]!.sequence);
    }
    while (scheduler.canAdmit()) scheduler.admit();
    if (scheduler.rows.numRows === 0) {
      nowMs = watched[numEnqueued]!.arrival.atMs;
      continue;
    }
    const numLive = scheduler.rows.numRows + scheduler.numWaiting;
    steps.push({ ...takeStep(scheduler, watched), numLive });
    nowMs += STEP_MS + PROMPT_TOKEN_MS * steps.at(-1)!.numPrompt;
    for (const { sequence, tokenMs } of watched) if (sequence.numGenerated > tokenMs.length) tokenMs.push(nowMs);
    scheduler.leaveRows();
  }
  return { courses: watched.map(courseOf), steps };
}

function takeStep(scheduler: Scheduler, watched: readonly Watched[]): { numRows: number; numPrompt: number; numWanted: number } {
  const { sequences } = scheduler.rows;
  const prefilling = sequences.filter(({ isPrefilling }) => isPrefilling);
  for (const one of watched) {
    if (one.sequence.slot < 0 || !one.sequence.isPrefilling) continue;
    one.older ??= prefilling.filter(({ arrival }) => arrival < one.sequence.arrival).map(({ numPending }) => numPending);
    one.numPrefillSteps++;
  }
  const numWanted = prefilling.reduce((sum, { numPending }) => sum + numPending, 0);
  const numRows = sequences.length;
  let numPrompt = 0;
  for (const { sequence, count, isSampled } of scheduler.schedule().stepRows) {
    if (sequence.isPrefilling) numPrompt += count;
    sequence.advanceCache(count);
    if (!isSampled) continue;
    sequence.append(1);
    if (sequence.finishReason() !== null) sequence.outcome = { type: "finished", reason: "length" };
  }
  return { numRows, numPrompt, numWanted };
}

function courseOf({ arrival, tokenMs, numPrefillSteps, older }: Watched): Course {
  const gaps = tokenMs.slice(1).map((ms, i) => ms - tokenMs[i]!);
  const firstTokenMs = tokenMs[0]! - arrival.atMs;
  return { arrival, firstTokenMs, longestGapMs: Math.max(0, ...gaps), numPrefillSteps, older: older ?? [] };
}

/** Arrivals of a Poisson process, `perSecond` in the mean; the same ones for the same seed. */
export function poisson(
  numArrivals: number,
  perSecond: number,
  seed: number,
  draw: (random: () => number) => Omit<Arrival, "atMs">,
): Arrival[] {
  let state = seed >>> 0;
  const random = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state + 1) / (2 ** 32 + 1);
  };
  let atMs = 0;
  return Array.from({ length: numArrivals }, () => {
    atMs += -Math.log(random()) * 1000 / perSecond;
    return { atMs, ...draw(random) };
  });
}

export function percentile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))] ?? NaN;
}
