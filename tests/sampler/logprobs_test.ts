import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { modelLikeLogits, type RowSettings, withSampler } from "./row_sampler.ts";

const VOCAB_SIZE = 1000;

/** ln softmax in float64. */
function logSoftmax(logits: Float32Array): number[] {
  const best = Math.max(...logits);
  const sum = logits.reduce((total, logit) => total + Math.exp(logit - best), 0);
  return [...logits].map((logit) => logit - best - Math.log(sum));
}

Deno.test(
  "logprobs are those of the logits before temperature and filters, whatever the row draws by",
  withSampler((sampler) => {
    const logits = modelLikeLogits(VOCAB_SIZE, 7);
    const expected = logSoftmax(logits);
    const order = expected.map((_, id) => id).sort((a, b) => (expected[b] ?? 0) - (expected[a] ?? 0) || a - b);
    sampler.write(logits, VOCAB_SIZE);
    const settings: RowSettings[] = [
      { temperature: 0 },
      { temperature: 3, seed: 5n },
      { temperature: 0.5, topK: 2, seed: 6n },
      { temperature: 1, topP: 0.3, minP: 0.2, typicalP: 0.8, seed: 7n },
      { temperature: 2, topNSigma: 1, temperatureLast: true, seed: 8n },
    ];
    for (const row of settings) {
      const [drawn] = sampler.sample([{ ...row, numTopLogprobs: 20 }]);
      assertAlmostEquals(drawn!.logprob, expected[drawn!.token] ?? NaN, 1e-5, JSON.stringify(row, (_, value) => String(value)));
      assertEquals(drawn!.top.map(({ token }) => token), order.slice(0, 20));
      for (const { token, logprob } of drawn!.top) assertAlmostEquals(logprob, expected[token] ?? NaN, 1e-5);
    }
  }),
);

Deno.test(
  "bias, bans and masks are part of the reported logprobs, and what is banned is no alternative",
  withSampler((sampler) => {
    const logits = modelLikeLogits(VOCAB_SIZE, 8);
    sampler.write(logits, VOCAB_SIZE);
    const allowedTokenIds = [3, 500, 999];
    const processed = Float32Array.from(logits, (logit, id) => allowedTokenIds.includes(id) ? logit : -Infinity);
    processed[500] = -Infinity;
    processed[3]! += 2;
    const edits = [{ token: 500, bias: -Infinity }, { token: 3, bias: 2 }];
    const [drawn] = sampler.sample([{ temperature: 1, seed: 1n, numTopLogprobs: 5, allowedTokenIds, edits }]);
    const expected = logSoftmax(processed);
    assertEquals(drawn!.top.map(({ token }) => token).sort((a, b) => a - b), [3, 999]);
    for (const { token, logprob } of drawn!.top) assertAlmostEquals(logprob, expected[token] ?? NaN, 1e-5);
    assert(Math.abs(drawn!.top.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0) - 1) < 1e-5);
  }),
);

Deno.test(
  "equal alternatives come by lower id, and no more of them than were asked for",
  withSampler((sampler) => {
    const logits = new Float32Array(VOCAB_SIZE).fill(-5);
    for (const id of [700, 20, 300]) logits[id] = 2;
    for (const id of [999, 1]) logits[id] = 1;
    sampler.write(logits, VOCAB_SIZE);
    for (
      const [numTopLogprobs, ids] of [[0, []], [1, [20]], [2, [20, 300]], [5, [20, 300, 700, 1, 999]], [7, [
        20,
        300,
        700,
        1,
        999,
        0,
        2,
      ]]] as const
    ) {
      const [drawn] = sampler.sample([{ temperature: 0, numTopLogprobs }]);
      assertEquals(drawn!.top.map(({ token }) => token), [...ids]);
    }
  }),
);

Deno.test(
  "every row reports as many alternatives as it asked for, in one batch",
  withSampler((sampler) => {
    const counts = [-1, 0, 3, 20, 1];
    const rows = counts.map((_, i) => modelLikeLogits(VOCAB_SIZE, 20 + i));
    const logits = new Float32Array(VOCAB_SIZE * rows.length);
    rows.forEach((row, i) => logits.set(row, i * VOCAB_SIZE));
    sampler.write(logits, VOCAB_SIZE);
    const drawn = sampler.sample(counts.map((numTopLogprobs, i) => ({ temperature: 1, seed: BigInt(i), numTopLogprobs })));
    assertEquals(drawn.map(({ top }) => top.length), [0, 0, 3, 20, 1]);
    drawn.forEach(({ token, logprob }, i) => {
      const expected = counts[i] === -1 ? 0 : logSoftmax(rows[i] as Float32Array)[token] ?? NaN;
      assertAlmostEquals(logprob, expected, 1e-5, `row ${i}`);
    });
  }),
);
