import type { TokenLogprob } from "./messages.ts";

/**
 * The logprob of `token` and of the `numTop` best tokens under a float32 logits row, in float64. Prompts are scored on the raw logits: a
 * request's bias and penalties are about what it generates.
 * @returns null when the logits are not a distribution: a NaN or +inf among them, or none above -inf.
 */
export function scoreToken(logits: Float32Array, token: number, numTop: number): TokenLogprob | null {
  const best = logits.reduce((max, logit) => logit > max ? logit : max, -Infinity);
  // Relative to the best logit, so that nothing overflows and large logits lose no digits.
  const relative = (id: number): number => (logits[id] ?? -Infinity) - best;
  let sum = 0;
  for (let id = 0; id < logits.length; id++) sum += Math.exp(relative(id));
  if (!(sum < Infinity)) return null;
  const logprob = (id: number): number => relative(id) - Math.log(sum);
  return { logprob: logprob(token), top: bestTokens(logits, numTop).map((id) => ({ token: id, logprob: logprob(id) })) };
}

/** Ids of the `count` best logits, best first, equal ones by lower id; fewer when fewer are above -inf. */
function bestTokens(logits: Float32Array, count: number): number[] {
  const best: number[] = [];
  if (count === 0) return best;
  for (let id = 0; id < logits.length; id++) {
    const logit = logits[id] ?? -Infinity;
    const worst = best.length < count ? -Infinity : logits[best[count - 1] ?? 0] ?? -Infinity;
    if (!(logit > worst)) continue;
    let at = Math.min(best.length, count - 1);
    while (at > 0 && (logits[best[at - 1] ?? 0] ?? -Infinity) < logit) at--;
    best.splice(at, 0, id);
    if (best.length > count) best.pop();
  }
  return best;
}
