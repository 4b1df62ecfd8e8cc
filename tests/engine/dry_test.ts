import { assertAlmostEquals, assertEquals } from "@std/assert";
import fc from "fast-check";
import { Dry } from "../../src/engine/dry.ts";
import { GREEDY, type SamplingConfig } from "../../src/engine/sampling.ts";

const BASE: Partial<SamplingConfig> = { dryMultiplier: 1, dryBase: 2, dryAllowedLength: 2 };

function penalties(history: number[], overrides: Partial<SamplingConfig> = {}): Map<number, number> {
  const found = new Map<number, number>();
  const dry = new Dry({ ...GREEDY, ...BASE, ...overrides });
  dry.visit(Int32Array.from(history), history.length, (token, penalty) => {
    if (found.has(token)) throw new Error(`Token ${token} is penalized twice`);
    found.set(token, penalty);
  });
  return found;
}

/** Straight from the definition: for every earlier place, how far back the text before it equals the end of the text. */
function bruteForce(history: number[], config: SamplingConfig): Map<number, number> {
  const window = config.dryPenaltyLastN < 0 ? history : history.slice(-config.dryPenaltyLastN);
  let start = -1;
  let longest = 0;
  for (let begin = 0; begin < window.length; begin++) {
    const here = config.drySequenceBreakers.filter((breaker) =>
      breaker.length > 0 && breaker.every((id, i) => window[begin + i] === id && begin + i < window.length)
    );
    if (here.length > 0) [start, longest] = [begin, Math.max(...here.map(({ length }) => length))];
  }
  const maxRepeat = start < 0 ? window.length : window.length - start - longest;
  const found = new Map<number, number>();
  if (window.length <= config.dryAllowedLength || maxRepeat < config.dryAllowedLength) return found;
  for (let next = 1; next < window.length; next++) {
    let repeat = 0;
    while (repeat < next && window[next - 1 - repeat] === window[window.length - 1 - repeat]) repeat++;
    repeat = Math.min(repeat, maxRepeat);
    if (repeat < config.dryAllowedLength) continue;
    const penalty = config.dryMultiplier * config.dryBase ** (repeat - config.dryAllowedLength);
    const token = window[next] ?? -1;
    found.set(token, Math.max(found.get(token) ?? 0, penalty));
  }
  return found;
}

Deno.test("the penalties equal the definition applied by brute force", () => {
  const token = fc.integer({ min: 0, max: 3 });
  const config = fc.record({
    dryAllowedLength: fc.integer({ min: 0, max: 4 }),
    dryPenaltyLastN: fc.constantFrom(-1, 3, 10, 25),
    drySequenceBreakers: fc.array(fc.array(token, { minLength: 1, maxLength: 3 }), { maxLength: 2 }),
  }, { noNullPrototype: true });
  fc.assert(
    fc.property(fc.array(token, { minLength: 1, maxLength: 40 }), config, (history, overrides) => {
      const sorted = (map: Map<number, number>): [number, number][] => [...map].sort(([a], [b]) => a - b);
      assertEquals(sorted(penalties(history, overrides)), sorted(bruteForce(history, { ...GREEDY, ...BASE, ...overrides })));
    }),
    { numRuns: 2000 },
  );
});

Deno.test("the token that continues a repetition is penalized exponentially in its length", () => {
  assertEquals(penalties([1, 2, 3, 9, 1, 2]), new Map([[3, 1]]));
  assertEquals(penalties([5, 1, 2, 3, 9, 5, 1, 2]), new Map([[3, 2]]));
  assertEquals(penalties([6, 5, 1, 2, 3, 9, 6, 5, 1, 2]), new Map([[3, 4]]));
  assertEquals(penalties([1, 2, 3, 9, 2]), new Map());
});

Deno.test("of several earlier places the longest repetition decides, and each next token has its own", () => {
  assertEquals(penalties([7, 1, 2, 3, 0, 1, 2, 4, 0, 7, 1, 2]), new Map([[3, 2], [4, 1]]));
});

Deno.test("a repetition does not reach back over a sequence breaker", () => {
  const history = [7, 1, 2, 3, 0, 7, 1, 2];
  assertEquals(penalties(history), new Map([[3, 2]]));
  assertEquals(penalties(history, { drySequenceBreakers: [[7]] }), new Map([[3, 1]]));
  assertEquals(penalties(history, { drySequenceBreakers: [[1]] }), new Map());
  assertEquals(penalties(history, { drySequenceBreakers: [[7, 1]] }), new Map());
});

Deno.test("only the last n tokens are looked at", () => {
  const history = [1, 2, 3, 9, 9, 9, 1, 2];
  assertEquals(penalties(history, { dryPenaltyLastN: 8 }), new Map([[3, 1]]));
  assertEquals(penalties(history, { dryPenaltyLastN: 6 }), new Map());
});

Deno.test("a very long repetition is cut at float32's largest exponent", () => {
  const penalty = penalties(Array(400).fill(3)).get(3) ?? 0;
  assertAlmostEquals(Math.log(penalty), 88.7228391, 1e-6);
});

Deno.test("DRY is off with multiplier 0, base below 1 or last n 0", () => {
  for (const off of [{ dryMultiplier: 0 }, { dryBase: 0.9 }, { dryPenaltyLastN: 0 }]) {
    assertEquals(Dry.isActive({ ...GREEDY, ...BASE, ...off }), false);
  }
  assertEquals(Dry.isActive({ ...GREEDY, ...BASE }), true);
});
