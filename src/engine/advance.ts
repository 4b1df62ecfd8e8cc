import { TOP_LOGPROBS_MAX } from "../native/symbols.ts";
import type { SampledRows } from "../native/structs.ts";
import type { EngineCore } from "./engine_core.ts";
import type { RowUpdate, TokenLogprob } from "./messages.ts";
import { scoreToken } from "./prompt_logprobs.ts";
import type { Sequence } from "./sequence.ts";
import type { StepPlan, StepRow } from "./step_plan.ts";
import type { StepReport } from "./step_report.ts";

/** Takes the results of a step in: every row's cache length, prompt scores, token and finish. */
export function advance(core: EngineCore, plan: StepPlan, report: StepReport): void {
  const logits = readScoredLogits(core, plan);
  const nowMs = core.nowMs();
  let logitsRow = 0;
  for (const stepRow of plan.stepRows) {
    const { sequence, count, outputs } = stepRow;
    if (sequence.isPrefilling) report.numPromptTokens += count;
    if (logits !== null && sequence.promptLogprobs !== null) {
      scorePrompt(sequence, outputs, logits, logitsRow, core.backend.facts.vocabSize);
    }
    logitsRow += outputs;
    sequence.advanceCache(count);
    const update = sequence.outcome === null ? takeToken(stepRow, core.sampling.call.sampled, logitsRow - 1, nowMs) : null;
    if (update === null) continue;
    report.updates.push(update);
    report.numGeneratedTokens += update.tokens.length;
  }
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
function takeToken({ sequence, isSampled }: StepRow, sampled: SampledRows, row: number, nowMs: number): RowUpdate | null {
  if (!isSampled) {
    if (sequence.isPrefilling || sequence.request.maxTokens > 0) return null;
    return finished(sequence, { ...emptyUpdate(sequence), finishReason: "length" }, nowMs);
  }
  const token = sampled.token(row);
  if (sampled.isBroken(row) || token < 0) {
    breakRow(sequence);
    return null;
  }
  sequence.firstTokenMs ??= nowMs;
  sequence.append(token);
  const { numTopLogprobs } = sequence.request.sampling;
  const logprobs = numTopLogprobs < 0 ? [] : [readLogprob(sampled, row, numTopLogprobs)];
  return finished(sequence, { ...emptyUpdate(sequence), tokens: [token], logprobs, finishReason: sequence.finishReason() }, nowMs);
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
  return { ...update, timings: sequence.timings(nowMs) };
}

function breakRow(sequence: Sequence): void {
  const message = `The model gave no usable logits for request "${sequence.id}" after ${sequence.length} tokens`;
  sequence.outcome = { type: "failed", code: "row_broken", message };
}

/** Alternatives that are banned have no logprob: they are left out. */
function readLogprob(sampled: SampledRows, row: number, numTop: number): TokenLogprob {
  const top: { token: number; logprob: number }[] = [];
  for (let i = row * TOP_LOGPROBS_MAX; i < row * TOP_LOGPROBS_MAX + numTop; i++) {
    const token = sampled.topTokens[i] ?? -1;
    const logprob = sampled.topLogprobs[i] ?? -Infinity;
    if (token >= 0 && logprob > -Infinity) top.push({ token, logprob });
  }
  return { logprob: sampled.logprob(row), top };
}
