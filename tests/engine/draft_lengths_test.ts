import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { Acceptance, GradedAcceptance } from "../../src/engine/acceptance.ts";
import { chooseDraftLengths, type DraftOffer } from "../../src/engine/draft_lengths.ts";
import { makeSpeculation, MAX_EXACT_ROWS } from "../../src/engine/make_speculation.ts";
import { StepCost } from "../../src/engine/step_cost.ts";
import { FakeBackend } from "./fake_backend.ts";

const FLAT = (): number => 10;
const sum = (lengths: readonly number[]): number => lengths.reduce((total, length) => total + length, 0);

/** Drafts that are right with the chances of their places; the last one counts for all behind it. */
function offer(maxDrafts: number, ...chances: number[]): DraftOffer {
  return { maxDrafts, chance: (place) => chances[Math.min(place, chances.length - 1)]! };
}

Deno.test("drafts that cost nothing are all taken, and drafts that never agree are not", () => {
  assertEquals(chooseDraftLengths([offer(5, 0.9)], 1, 100, FLAT), [5]);
  assertEquals(chooseDraftLengths([offer(5, 0)], 1, 100, FLAT), [0]);
});

Deno.test("each row gets its own length, and no other lengths bring more tokens per millisecond", () => {
  const probabilities = [0.95, 0.5, 0.1];
  const stepMs = (lengths: readonly number[]): number => 10 + 0.4 * sum(lengths);
  const rate = (lengths: readonly number[]): number => {
    const tokens = lengths.map((length, row) => Array.from({ length: length + 1 }, (_, i) => probabilities[row]! ** i)).flat();
    return sum(tokens) / stepMs(lengths);
  };
  const chosen = chooseDraftLengths(probabilities.map((probability) => offer(8, probability)), 3, 100, stepMs);
  assert(chosen[0]! > chosen[1]! && chosen[1]! > chosen[2]!, chosen.join(" "));
  for (let code = 0; code < 9 ** 3; code++) {
    const other = [code % 9, Math.floor(code / 9) % 9, Math.floor(code / 81)];
    assert(rate(other) <= rate(chosen) + 1e-12, `${other.join(" ")} instead of ${chosen.join(" ")}`);
  }
});

Deno.test("the choice is the best one of all, where costs jump too", () => {
  // Up to three drafts are free, the fourth doubles the step.
  const stepMs = (lengths: readonly number[]): number => sum(lengths) <= 3 ? 10 : 20;
  assertEquals(chooseDraftLengths([offer(8, 0.8)], 1, 100, stepMs), [3]);
  assertEquals(chooseDraftLengths([offer(30, 0.99)], 1, 100, stepMs), [30]);
});

Deno.test("a first draft that is rarely right is worth it when those behind it are, and the other way round only one is", () => {
  const stepMs = (lengths: readonly number[]): number => 10 + sum(lengths);
  assertEquals(chooseDraftLengths([offer(4, 0.3, 0.95)], 1, 100, stepMs), [4]);
  assertEquals(chooseDraftLengths([offer(4, 0.6, 0.1)], 1, 100, stepMs), [1]);
});

Deno.test("drafts of all rows together stay within the limit, and a small promise is not worth a round", () => {
  const offers = Array.from({ length: 4 }, () => offer(8, 0.9));
  assertEquals(sum(chooseDraftLengths(offers, 4, 6, FLAT)), 6);
  assertEquals(chooseDraftLengths([offer(1, 0.02)], 1, 8, FLAT), [0]);
});

Deno.test("a row's chance follows its last few dozen drafts, and drafts after a wrong one do not count", () => {
  const all = new Acceptance();
  const acceptance = new Acceptance(all);
  for (let i = 0; i < 120; i++) acceptance.observe(5, 5);
  assert(acceptance.chance(0) > 0.97 && acceptance.chance(1) > 0.97, `${acceptance.chance(0)}`);
  for (let i = 0; i < 36; i++) acceptance.observe(5, 0);
  assert(acceptance.chance(0) < 0.4, `${acceptance.chance(0)}`);
  // What all rows did is remembered for longer.
  assert(all.chance(0) > acceptance.chance(0) + 0.2, `${all.chance(0)}`);
});

Deno.test("a first draft's chance and that of the drafts behind a right one are learned apart", () => {
  const acceptance = new Acceptance();
  for (let i = 0; i < 200; i++) acceptance.observe(7, i % 4 === 0 ? 7 : 0);
  assert(Math.abs(acceptance.chance(0) - 0.25) < 0.1, `${acceptance.chance(0)}`);
  assert(acceptance.chance(1) > 0.95 && acceptance.chance(6) > 0.95, `${acceptance.chance(1)}`);
});

Deno.test("a new row begins with what other rows have found out, and then goes by its own", () => {
  const all = new Acceptance();
  assertEquals(new Acceptance(all).chance(0), 0.5);
  const other = new Acceptance(all);
  for (let i = 0; i < 50; i++) other.observe(2, 0);
  const fresh = new Acceptance(all);
  assert(fresh.chance(0) < 0.1 && fresh.hope(0) > fresh.chance(0), `${fresh.chance(0)}`);
  for (let i = 0; i < 5; i++) fresh.observe(2, 2);
  assert(fresh.chance(0) > 0.6 && other.chance(0) < 0.1, `${fresh.chance(0)} ${other.chance(0)}`);
});

Deno.test("offers of one grade do not suffer from those of another", () => {
  const graded = new GradedAcceptance();
  for (let i = 0; i < 20; i++) {
    graded.enter(graded.of("ngram", 2));
    graded.observe(2, 0);
    graded.enter(graded.of("ngram", 4));
    graded.observe(5, 5);
  }
  assert(graded.of("ngram", 2).chance(0) < 0.15 && graded.of("ngram", 4).chance(0) > 0.85);
  assertEquals(graded.of("mtp", 4).chance(0), 0.5);
});

Deno.test("a row without luck is tried again after 8 steps, then 16, 32 and always 64, until a draft is right", () => {
  const acceptance = new Acceptance();
  const stepsToProbe = (numRows = 1): number => {
    for (let steps = 1;; steps++) {
      acceptance.skip(numRows);
      if (acceptance.isDue) return steps;
    }
  };
  const waits = Array.from({ length: 5 }, () => {
    const steps = stepsToProbe();
    acceptance.observe(2, 0);
    return steps;
  });
  assertEquals(waits, [8, 16, 32, 64, 64]);
  stepsToProbe();
  acceptance.observe(2, 1);
  assertEquals(stepsToProbe(), 8);
  // Among four rows it waits four times as long: the others try too.
  acceptance.observe(2, 1);
  assertEquals(stepsToProbe(4), 32);
});

Deno.test("the cost of a width that was not seen lies between those that were, and a wider step is never the faster one", () => {
  const cost = new StepCost();
  assertEquals(cost.estimate(4), null);
  for (let i = 0; i < 4; i++) {
    cost.observe(1, 10);
    cost.observe(5, 18);
    cost.observe(9, 15);
  }
  assertEquals([cost.estimate(1), cost.estimate(3), cost.estimate(5), cost.estimate(9)], [10, 12.5, 15, 15]);
  assertEquals(cost.estimate(17), 20);
  assertEquals([cost.estimate(2, [2, 12]), cost.estimate(1, [2, 12])], [12, 10]);
});

Deno.test("a step that took long for once does not spoil a width, and old times are forgotten", () => {
  const cost = new StepCost();
  for (let i = 0; i < 10; i++) cost.observe(4, 10);
  cost.observe(4, 500);
  assert((cost.estimate(4) ?? 0) < 10.5, `${cost.estimate(4)}`);
  cost.observe(1, 5);
  for (let steps = 0; steps < 401; steps++) cost.pass();
  assertEquals(cost.estimate(4), null);
  // A width that was seen once, in a bad moment perhaps, is tried again sooner; the better time counts then.
  cost.observe(4, 500);
  for (let steps = 0; steps < 33; steps++) cost.pass();
  assertEquals(cost.estimate(4), null);
  cost.observe(4, 10);
  assertEquals(cost.estimate(4), 10);
});

Deno.test("steps with drafts are as wide as the native library computes row by row, rows as wide as their heads allow", () => {
  const source = readFileSync(new URL("../../ffi/src/cpu/sgemm.c", import.meta.url), "utf8");
  assertEquals(Number(/MAX_SKINNY_ROWS = (\d+)/.exec(source)?.[1]), MAX_EXACT_ROWS);
  const model = { config: { num_attention_heads: 12, num_key_value_heads: 2 }, tensors: [] };
  const { settings } = makeSpeculation({ speculation: {}, model }, new FakeBackend());
  assertEquals([settings.maxStepTokens, settings.maxRowTokens], [MAX_EXACT_ROWS, Math.floor(MAX_EXACT_ROWS / 6)]);
  const invariant = makeSpeculation({ speculation: {}, model, isBatchInvariant: true }, new FakeBackend());
  assertEquals(invariant.settings.maxStepTokens, undefined);
});
