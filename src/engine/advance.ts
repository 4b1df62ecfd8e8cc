import type { SampledRows } from "../native/structs.ts";
import { acceptDraws, type Accepted, isBroken } from "./accept.ts";
import type { ModelBackend } from "./backend.ts";
import type { EngineCore } from "./engine_core.ts";
import type { RowTimings, RowUpdate } from "./messages.ts";
import { scoreToken } from "./prompt_logprobs.ts";
import type { Sequence } from "./sequence.ts";
import type { StepPlan, StepRow } from "./step_plan.ts";
import type { StepReport } from "./step_report.ts";

/** A row with drafts, and what they brought. */
type Verified = StepRow & Accepted;

/** Takes the results of a step in: every row's cache length, prompt scores, tokens and finish. */
export function advance(core: EngineCore, plan: StepPlan, sampled: SampledRows, report: StepReport): void {
  const logits = readScoredLogits(core, plan);
  const nowMs = core.nowMs();
  const verified: Verified[] = [];
  let logitsRow = 0;
  for (const stepRow of plan.stepRows) {
    const { sequence, count, outputs, isSampled, numDrafts } = stepRow;
    if (sequence.isPrefilling) report.numPromptTokens += count;
    if (logits !== null && sequence.promptLogprobs !== null) {
      scorePrompt(sequence, outputs, logits, logitsRow, core.backend.facts.vocabSize);
    }
    logitsRow += outputs;
    // Behind a row that has ended there may be one token more, which is not its own.
    sequence.advanceCache(Math.min(count - numDrafts, sequence.numPending));
    if (sequence.outcome !== null) {
      // It has ended while the device was at work, or what it asks of the host went wrong.
      if (!isSampled || numDrafts > 0 || isBroken(sampled, logitsRow - 1)) sequence.skipDraw();
      continue;
    }
    const update = takeTokens(stepRow, sampled, logitsRow - 1 - numDrafts, nowMs, verified);
    if (update === null) continue;
    report.updates.push(update);
    report.numGeneratedTokens += update.tokens.length;
  }
  undoDrafts(core.backend, verified);
}

/** The logits of all outputs when some prompt is scored, which is rare; else null. */
function readScoredLogits(core: EngineCore, plan: StepPlan): Float32Array | null {
  if (!plan.stepRows.some(({ sequence, outputs }) => sequence.promptLogprobs !== null && outputs > 0)) return null;
  const logits = new Float32Array(plan.numOutputs * core.backend.facts.vocabSize);
  core.backend.readLogits(logits);
  return logits;
}

/** Scores the prompt tokens that follow the positions just computed. */
function scorePrompt(sequence: Sequence, outputs: number, logits: Float32Array, firstRow: number, vocabSize: number): void {
  for (let i = 0; i < outputs; i++) {
    const position = sequence.cachedLen + i + 1;
    if (position >= sequence.promptLength) return;
    const row = logits.subarray((firstRow + i) * vocabSize, (firstRow + i + 1) * vocabSize);
    const score = scoreToken(row, sequence.tokens[position] ?? 0, sequence.request.promptLogprobs);
    if (score === null) return breakRow(sequence);
    sequence.promptLogprobs?.push(score);
  }
}

/** The row's update, or null when the step brought it nothing to tell. */
function takeTokens(stepRow: StepRow, sampled: SampledRows, firstRow: number, nowMs: number, verified: Verified[]): RowUpdate | null {
  const { sequence, isSampled, numDrafts } = stepRow;
  if (!isSampled) {
    if (sequence.isPrefilling || sequence.request.maxTokens > 0) return null;
    return finished(sequence, { ...emptyUpdate(sequence), finishReason: "length" }, nowMs);
  }
  const accepted = acceptDraws(sequence, sampled, firstRow);
  sequence.endRound(accepted.numAccepted);
  const { tokens, logprobs, finishReason, numAccepted } = accepted;
  if (numDrafts > 0) verified.push({ ...stepRow, ...accepted });
  if (tokens.length === 0) {
    if (numDrafts === 0) breakRow(sequence);
    return null;
  }
  const isFirst = sequence.firstTokenMs === null;
  sequence.firstTokenMs ??= nowMs;
  sequence.advanceCache(tokens.length - 1);
  const round = numDrafts > 0 ? { round: { numDrafts, numAccepted } } : {};
  const timings = isFirst ? figures(sequence, nowMs) : {};
  return finished(sequence, { ...emptyUpdate(sequence), tokens, logprobs, ...round, ...timings, finishReason }, nowMs);
}

/**
 * Takes rejected drafts out of the cache. Keys and values are overwritten by what comes; a recurrent state has to go back. What is not made of
 * numbers cannot stay even behind a row's tokens, where it is masked (NaN times 0 is NaN): the row is computed again into a clean slot.
 */
function undoDrafts(backend: ModelBackend, verified: readonly Verified[]): void {
  const rejected = verified.filter(({ sequence, tokens, numDrafts, hasUnsoundCache }) =>
    sequence.outcome === null && tokens.length <= numDrafts && !hasUnsoundCache
  );
  if (rejected.length > 0) backend.keep(rejected.map(({ sequence }) => sequence.slot), rejected.map(({ tokens }) => tokens.length));
  for (const { sequence } of verified.filter(({ hasUnsoundCache }) => hasUnsoundCache)) {
    backend.clear(sequence.slot);
    sequence.startOver();
  }
}

function emptyUpdate(sequence: Sequence): RowUpdate {
  const update = { id: sequence.id, tokens: [], logprobs: [], finishReason: null };
  if (sequence.promptLogprobs === null) return update;
  const promptLogprobs = sequence.promptLogprobs;
  sequence.promptLogprobs = null;
  return { ...update, promptLogprobs };
}

/** Adds the timings and marks the sequence when this is its last update. */
function finished(sequence: Sequence, update: RowUpdate, nowMs: number): RowUpdate {
  if (update.finishReason === null) return update;
  sequence.outcome = { type: "finished", reason: update.finishReason };
  return { ...update, ...figures(sequence, nowMs) };
}

function figures(sequence: Sequence, nowMs: number): { timings: RowTimings; cachedTokens?: number } {
  const { numReused } = sequence;
  return { timings: sequence.timings(nowMs), ...(numReused > 0 ? { cachedTokens: numReused } : {}) };
}

function breakRow(sequence: Sequence): void {
  const message = `The model gave no usable logits for request "${sequence.id}" after ${sequence.length} tokens`;
  sequence.outcome = { type: "failed", code: "row_broken", message };
}
