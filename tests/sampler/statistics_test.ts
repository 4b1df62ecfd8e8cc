/**
 * χ² of draws against their exact law, and of pairs of draws against independence. About 70 tests at 3·10⁻⁷ each: the file as a whole would
 * reject a perfect sampler with a freshly chosen random stream 2 times in 100,000.
 */
import { assert, assertEquals } from "@std/assert";
import { type ChiSquared, CRITICAL_Z, goodnessOfFit, independence } from "./chi_squared.ts";
import { modelLikeLogits, type RowSampler, type RowSettings, withSampler } from "./row_sampler.ts";

const BATCH = 500;

function assertPlausible({ z, degrees }: ChiSquared, label: string): void {
  assert(z < CRITICAL_Z, `${label}: z is ${z.toFixed(2)} at ${degrees} degrees of freedom, allowed below ${CRITICAL_Z}`);
}

/** Draws `numDraws` times from the row, which is written BATCH times over so that one call draws many. */
function draw(sampler: RowSampler, logits: Float32Array, numDraws: number, settingsAt: (i: number) => RowSettings): Int32Array {
  const rows = new Float32Array(BATCH * logits.length);
  for (let row = 0; row < BATCH; row++) rows.set(logits, row * logits.length);
  sampler.write(rows, logits.length);
  const tokens = new Int32Array(numDraws);
  for (let begin = 0; begin < numDraws; begin += BATCH) {
    const settings = Array.from({ length: BATCH }, (_, row) => settingsAt(begin + row));
    sampler.sample(settings).forEach(({ token }, row) => tokens[begin + row] = token);
  }
  return tokens;
}

function countTokens(tokens: Int32Array, vocabSize: number): Float64Array {
  const counts = new Float64Array(vocabSize);
  for (const token of tokens) counts[token] = (counts[token] ?? 0) + 1;
  return counts;
}

const CONFIGURATIONS: readonly RowSettings[] = [
  { temperature: 1 },
  { temperature: 0.4 },
  { temperature: 3 },
  { temperature: 1, topK: 12 },
  { temperature: 1.3, topP: 0.8 },
  { temperature: 1.3, topP: 0.8, temperatureLast: true },
  { temperature: 1, minP: 0.05 },
  { temperature: 1.5, topNSigma: 1 },
  { temperature: 2, pLess: true },
  { temperature: 1, typicalP: 0.6 },
  { temperature: 1, xtcProbability: 1, xtcThreshold: 0.1 },
  { temperature: 1.2, topK: 40, topP: 0.9, minP: 0.02 },
  { temperature: 1.5, topNSigma: 2, typicalP: 0.9, topK: 30, topP: 0.95, minP: 0.01 },
  { temperature: 1, allowedTokenIds: [1, 2, 3, 5, 8, 13, 21, 34, 55] },
  {
    temperature: 1,
    edits: [{ token: 7, bias: 3 }, { token: 9, repetition: 1.3 }, { token: 11, subtract: 2 }, { token: 12, bias: -Infinity }],
  },
];

for (const vocabSize of [64, 1000]) {
  for (const settings of CONFIGURATIONS) {
    Deno.test(
      `draws from ${vocabSize} tokens follow their law: ${JSON.stringify(settings)}`,
      withSampler((sampler) => {
        const numDraws = vocabSize === 64 ? 20_000 : 5000;
        const logits = modelLikeLogits(vocabSize, 21, 1.5);
        const tokens = draw(sampler, logits, numDraws, (i) => ({ ...settings, seed: BigInt(i >> 5), position: i & 31 }));
        const { kept, probabilities } = sampler.distribution(settings);
        assertEquals(tokens.filter((token) => kept[token] !== 1).length, 0, "draws outside the survivors");
        assertPlausible(goodnessOfFit(countTokens(tokens, vocabSize), probabilities.map((p) => p * numDraws)), "goodness of fit");
      }),
    );
  }
}

Deno.test(
  "temperature alone follows softmax(x / T), computed here",
  withSampler((sampler) => {
    const logits = modelLikeLogits(200, 4, 2);
    for (const temperature of [0.5, 1, 2]) {
      const tokens = draw(sampler, logits, 20_000, (position) => ({ temperature, seed: 17n, position }));
      const weights = Float64Array.from(logits, (x) => Math.exp(x / temperature));
      const mass = weights.reduce((sum, weight) => sum + weight, 0);
      assertPlausible(
        goodnessOfFit(countTokens(tokens, 200), weights.map((weight) => (20_000 * weight) / mass)),
        `temperature ${temperature}`,
      );
    }
  }),
);

Deno.test(
  "these tests reject a sampler that is a little off: temperature by 6 %, top_k ignored",
  withSampler((sampler) => {
    const logits = modelLikeLogits(64, 21, 1.5);
    const tokens = draw(sampler, logits, 20_000, (i) => ({ temperature: 1, seed: BigInt(i), position: 0 }));
    const hotter = sampler.distribution({ temperature: 1.06 }).probabilities.map((p) => p * 20_000);
    assert(goodnessOfFit(countTokens(tokens, 64), hotter).z > CRITICAL_Z, "a wrong temperature passed");
    const fewer = sampler.distribution({ temperature: 1, topK: 60 }).probabilities.map((p) => p * 20_000);
    assert(tokens.some((token) => fewer[token] === 0), "a dropped filter passed");
  }),
);

Deno.test(
  "XTC's coin falls with its probability, and the draws follow the mixture of both laws",
  withSampler((sampler) => {
    const logits = modelLikeLogits(64, 30, 1.5);
    const settings = { temperature: 1, xtcProbability: 0.3, xtcThreshold: 0.05 };
    const tokens = draw(sampler, logits, 20_000, (i) => ({ ...settings, seed: BigInt(i >> 7), position: i & 127 }));
    const off = sampler.distribution({ temperature: 1 }).probabilities;
    const on = sampler.distribution({ ...settings, xtcProbability: 1 }).probabilities;
    assertPlausible(goodnessOfFit(countTokens(tokens, 64), off.map((p, token) => 20_000 * (0.7 * p + 0.3 * (on[token] ?? 0)))), "mixture");
    const coins = Array.from(
      { length: 20_000 },
      (_, position) => Number(sampler.distribution({ ...settings, seed: 6n, position }).kept.includes(0)),
    );
    const heads = coins.reduce((sum, coin) => sum + coin, 0);
    assertPlausible(goodnessOfFit([heads, 20_000 - heads], [6000, 14_000]), "coin");
    assertPlausible(independence(coins.slice(1).map((coin, i) => [coin, coins[i] ?? 0]), 2), "coins of neighbouring positions");
    const free = draw(sampler, new Float32Array(8), 20_000, (position) => ({ temperature: 1, seed: 6n, position }));
    assertPlausible(independence(coins.map((coin, position) => [coin, free[position] ?? 0]), 8), "coin and draw");
  }),
);

const EQUAL = new Float32Array(8);
const PAIRS = 20_000;

/** Draws from 8 equal tokens under two settings, pair by pair. */
function pairsOf(
  sampler: RowSampler,
  first: (i: number) => RowSettings,
  second: (i: number) => RowSettings,
): (readonly [number, number])[] {
  const left = draw(sampler, EQUAL, PAIRS, first), right = draw(sampler, EQUAL, PAIRS, second);
  return Array.from(left, (token, i) => [token, right[i] ?? 0]);
}

Deno.test(
  "neighbouring positions are independent",
  withSampler((sampler) => {
    for (const distance of [1, 2, 3, 64, 65536]) {
      const at = (shift: number) => (i: number): RowSettings => ({ temperature: 1, seed: 99n, position: i + shift });
      assertPlausible(independence(pairsOf(sampler, at(0), at(distance)), 8), `distance ${distance}`);
    }
  }),
);

Deno.test(
  "seeds that differ by one, or by any single bit, are independent",
  withSampler((sampler) => {
    const at = (change: bigint) => (i: number): RowSettings => ({ temperature: 1, seed: BigInt(i >> 4) ^ change, position: i & 15 });
    for (const bit of [0n, 1n, 8n, 15n, 31n, 32n, 33n, 47n, 63n]) {
      assertPlausible(independence(pairsOf(sampler, at(0n), at(1n << bit)), 8), `bit ${bit}`);
    }
    const next = (i: number): RowSettings => ({ temperature: 1, seed: BigInt(i >> 4) + 1n, position: i & 15 });
    assertPlausible(independence(pairsOf(sampler, at(0n), next), 8), "the next seed");
    const later = (i: number): RowSettings => ({ temperature: 1, seed: BigInt(i >> 4) + 1n, position: (i & 15) + 1 });
    assertPlausible(independence(pairsOf(sampler, at(0n), later), 8), "the next seed at the next position");
  }),
);

Deno.test(
  "rows of one batch with seeds of their own are independent",
  withSampler((sampler) => {
    const tokens = draw(sampler, EQUAL, 2 * PAIRS, (i) => ({ temperature: 1, seed: BigInt(i % BATCH), position: Math.floor(i / BATCH) }));
    const pairs: [number, number][] = [];
    for (let i = 0; i + 1 < tokens.length; i += 2) pairs.push([tokens[i] ?? 0, tokens[i + 1] ?? 0]);
    assertPlausible(independence(pairs, 8), "neighbouring rows");
  }),
);

Deno.test(
  "the words of neighbouring ids, positions and seeds are independent, in their high and low bits",
  withSampler((sampler) => {
    const base = sampler.words(5n, 100, 50_000);
    const others: [string, Uint32Array][] = [
      ["the next id", base.slice(1)],
      ["the id after 2", base.slice(2)],
      ["the id after 1024", base.slice(1024)],
      ["the next position", sampler.words(5n, 101, 50_000)],
      ["the next seed", sampler.words(6n, 100, 50_000)],
      ["the highest bit of the seed", sampler.words(5n + 2n ** 63n, 100, 50_000)],
    ];
    for (const [name, words] of others) {
      for (const shift of [28, 0]) {
        const pairs = Array.from(words, (word, i): [number, number] => [((base[i] ?? 0) >>> shift) & 15, (word >>> shift) & 15]);
        assertPlausible(independence(pairs, 16), `${name}, bits from ${shift}`);
      }
    }
    for (const shift of [0, 8, 16, 24]) {
      const counts = new Float64Array(256);
      for (const word of base) counts[(word >>> shift) & 255] = (counts[(word >>> shift) & 255] ?? 0) + 1;
      assertPlausible(goodnessOfFit(counts, new Float64Array(256).fill(base.length / 256)), `evenness of bits from ${shift}`);
    }
  }),
);
