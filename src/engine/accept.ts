import type { SampledRows } from "../native/structs.ts";
import { TOP_LOGPROBS_MAX } from "../native/symbols.ts";
import type { FinishReason, TokenLogprob } from "./messages.ts";
import type { Sequence } from "./sequence.ts";

/** What a step's draws brought one sequence. */
export interface Accepted {
  readonly tokens: readonly number[];
  readonly logprobs: readonly TokenLogprob[];
  readonly finishReason: FinishReason | null;
  /** Drafts among the tokens. */
  readonly numAccepted: number;
  /** A draft has broken the model: what the cache holds behind the row's tokens, or for all of them, is not made of numbers. */
  readonly hasUnsoundCache: boolean;
}

/**
 * Appends the target's own draws to the sequence, from logits row `firstRow` on: one, and one more for each draft that was right, until the
 * sequence ends. A draw counts only when everything before it is what plain decoding has there. No token at all: the first draw is broken.
 */
export function acceptDraws(sequence: Sequence, sampled: SampledRows, firstRow: number): Accepted {
  const { drafts, request: { sampling: { numTopLogprobs } } } = sequence;
  const tokens: number[] = [];
  const logprobs: TokenLogprob[] = [];
  let finishReason: FinishReason | null = null;
  let numAccepted = 0;
  for (let i = 0; i <= drafts.length && finishReason === null; i++) {
    // Plain decoding comes to this place again, and finds out whether the row is broken or a draft behind it has broken it.
    if (isBroken(sampled, firstRow + i)) break;
    const token = sampled.token(firstRow + i);
    sequence.append(token);
    tokens.push(token);
    if (numTopLogprobs >= 0) logprobs.push(readLogprob(sampled, firstRow + i, numTopLogprobs));
    finishReason = sequence.finishReason();
    if (i === drafts.length || token !== drafts[i]) break;
    numAccepted++;
  }
  let hasUnsoundCache = false;
  for (let i = tokens.length; i <= drafts.length; i++) hasUnsoundCache ||= isBroken(sampled, firstRow + i);
  return { tokens, logprobs, finishReason, numAccepted, hasUnsoundCache };
}

export function isBroken(sampled: SampledRows, row: number): boolean {
  return sampled.isBroken(row) || sampled.token(row) < 0;
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
