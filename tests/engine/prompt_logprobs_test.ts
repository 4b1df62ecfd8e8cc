import { assertAlmostEquals, assertEquals } from "@std/assert";
import fc from "fast-check";
import { scoreToken } from "../../src/engine/prompt_logprobs.ts";

Deno.test("logprobs are a log-softmax, and alternatives are the best tokens with ties to the lower id", () => {
  const logits = fc.array(fc.integer({ min: -8, max: 8 }), { minLength: 1, maxLength: 40 });
  fc.assert(fc.property(logits, fc.nat(20), fc.nat(39), (values, numTop, pick) => {
    const token = pick % values.length;
    const score = scoreToken(Float32Array.from(values), token, numTop);
    const total = values.reduce((sum, value) => sum + Math.exp(value), 0);
    assertAlmostEquals(score?.logprob ?? NaN, Math.log(Math.exp(values[token] ?? 0) / total), 1e-12);
    const best = values.map((value, id) => ({ id, value })).sort((a, b) => b.value - a.value || a.id - b.id).slice(0, numTop);
    assertEquals(score?.top.map((entry) => entry.token), best.map(({ id }) => id));
  }));
});

Deno.test("very large logits and masked ones give no NaN", () => {
  const score = scoreToken(Float32Array.of(-Infinity, 3e38, 3e38, -Infinity), 1, 4);
  assertAlmostEquals(score?.logprob ?? NaN, -Math.LN2, 1e-12);
  assertEquals(score?.top.map(({ token }) => token), [1, 2]);
});

Deno.test("a row with NaN or +inf, or without any logit above -inf, has no score", () => {
  assertEquals(scoreToken(Float32Array.of(-Infinity, -Infinity), 0, 1), null);
  assertEquals(scoreToken(Float32Array.of(NaN, 1), 1, 1), null);
  assertEquals(scoreToken(Float32Array.of(Infinity, 1), 0, 1), null);
});
