/** What a row draws is its own affair: whoever shares its batch, in whatever order, broken or not. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { type DrawnRow, modelLikeLogits, packOwn, type RowPacking, type RowSampler, type RowSettings, withSampler } from "./row_sampler.ts";

const NUM_RUNS = 60;

/** One row of a mix: its settings and its logits. */
interface MixedRow {
  readonly settings: RowSettings;
  readonly logitsSeed: number;
  readonly shape: "model" | "ties" | "masked" | "-inf" | "NaN";
}

interface Mix {
  readonly vocabSize: number;
  readonly rows: readonly MixedRow[];
}

const chance = (...values: number[]): fc.Arbitrary<number> => fc.constantFrom(...values);

const settingsArbitrary: fc.Arbitrary<RowSettings> = fc.record({
  temperature: chance(0, 0.5, 0.9, 1, 2),
  topK: chance(0, 0, 1, 7, 40),
  topP: chance(1, 1, 0.3, 0.9),
  minP: chance(0, 0, 0.05),
  topNSigma: chance(0, 0, 0, 1.5),
  pLess: chance(0, 0, 0, 1).map((value) => value === 1),
  typicalP: chance(1, 1, 1, 0.8),
  temperatureLast: fc.boolean(),
  xtcProbability: chance(0, 0, 0.5),
  seed: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  position: fc.nat(10_000),
  numTopLogprobs: fc.integer({ min: -1, max: 20 }),
  allowedTokenIds: fc.option(fc.array(fc.nat(59), { minLength: 1, maxLength: 20 }), { freq: 1, nil: null }),
  edits: fc.array(
    fc.record({ token: fc.nat(59), bias: chance(0, 2, -2, -Infinity), repetition: chance(1, 1.2, 0.8), subtract: chance(0, 0.7) }),
    { maxLength: 4 },
  ),
});

const rowArbitrary: fc.Arbitrary<MixedRow> = fc.record({
  settings: settingsArbitrary,
  logitsSeed: fc.nat(1000),
  shape: fc.constantFrom("model", "model", "model", "ties", "masked", "-inf", "NaN"),
});

const mixArbitrary: fc.Arbitrary<Mix> = fc.record({
  vocabSize: chance(60, 64, 333, 2000),
  rows: fc.array(rowArbitrary, { minLength: 2, maxLength: 12 }),
});

const isBrokenShape = ({ shape }: MixedRow): boolean => shape === "-inf" || shape === "NaN";

function logitsOf({ shape, logitsSeed }: MixedRow, vocabSize: number): Float32Array {
  if (shape === "-inf") return new Float32Array(vocabSize).fill(-Infinity);
  if (shape === "NaN") return new Float32Array(vocabSize).fill(Number.NaN);
  const logits = modelLikeLogits(vocabSize, logitsSeed);
  if (shape === "ties") return logits.map((x) => Math.round(x));
  return shape === "masked" ? logits.map((x, token) => (token % 3 === 0 ? -Infinity : x)) : logits;
}

function sampleTogether(sampler: RowSampler, rows: readonly MixedRow[], vocabSize: number, pack: RowPacking = packOwn): DrawnRow[] {
  const logits = new Float32Array(rows.length * vocabSize);
  rows.forEach((row, i) => logits.set(logitsOf(row, vocabSize), i * vocabSize));
  sampler.write(logits, vocabSize);
  return sampler.sample(rows.map(({ settings }) => settings), pack);
}

function sampleAlone(sampler: RowSampler, rows: readonly MixedRow[], vocabSize: number): DrawnRow[] {
  return rows.flatMap((row) => sampleTogether(sampler, [row], vocabSize));
}

function checkMixes(property: (mix: Mix) => void, numRuns = NUM_RUNS): fc.RunDetails<[Mix]> {
  return fc.check(fc.property(mixArbitrary, property), { numRuns, seed: 20260417, endOnFailure: true });
}

function assertHolds(property: (mix: Mix) => void): void {
  const details = checkMixes(property);
  if (details.failed) throw details.errorInstance ?? new Error(`Failed for ${details.counterexample}`);
}

Deno.test(
  "every row of a batch draws what it draws alone, bit for bit",
  withSampler((sampler) => {
    assertHolds(({ rows, vocabSize }) => assertEquals(sampleTogether(sampler, rows, vocabSize), sampleAlone(sampler, rows, vocabSize)));
  }),
);

Deno.test(
  "the order of the rows does not matter",
  withSampler((sampler) => {
    assertHolds(({ rows, vocabSize }) => {
      const expected = sampleTogether(sampler, rows, vocabSize);
      const reversed = sampleTogether(sampler, rows.toReversed(), vocabSize);
      assertEquals(reversed, expected.toReversed());
      const rotated = sampleTogether(sampler, [...rows.slice(1), ...rows.slice(0, 1)], vocabSize);
      assertEquals(rotated, [...expected.slice(1), ...expected.slice(0, 1)]);
    });
  }),
);

Deno.test(
  "a neighbour that joins, leaves or breaks changes nobody else",
  withSampler((sampler) => {
    assertHolds(({ rows, vocabSize }) => {
      const [joiner, ...others] = rows;
      const expected = sampleTogether(sampler, others, vocabSize);
      for (const shape of ["model", "NaN", "-inf"] as const) {
        const neighbour: MixedRow = { settings: {}, logitsSeed: 1, ...joiner, shape };
        for (const place of [0, others.length >> 1, others.length]) {
          const drawn = sampleTogether(sampler, others.toSpliced(place, 0, neighbour), vocabSize);
          assertEquals(drawn.toSpliced(place, 1), expected, `${shape} neighbour at ${place}`);
        }
      }
    });
  }),
);

Deno.test(
  "exactly the rows without a number are broken, and they carry no token",
  withSampler((sampler) => {
    assertHolds(({ rows, vocabSize }) => {
      sampleTogether(sampler, rows, vocabSize).forEach((drawn, i) => {
        const row = rows[i];
        if (row === undefined || row.settings.allowedTokenIds || (row.settings.edits?.length ?? 0) > 0) return;
        assertEquals(drawn.isBroken, isBrokenShape(row));
        assertEquals(drawn.token < 0, drawn.isBroken);
      });
    });
  }),
);

/** Ways to get rows wrong, each of which has been shipped by some server. */
const WRONG_PACKINGS: Readonly<Record<string, RowPacking>> = {
  "gives every row the first row's configuration": (rows, row, settings) => packOwn(rows, row, settings.map(() => settings[0] ?? {})),
  "gives every row the last row's configuration": (rows, row, settings) => packOwn(rows, row, settings.map(() => settings.at(-1) ?? {})),
  "gives every row its neighbour's seed": (rows, row, settings) =>
    packOwn(rows, row, settings.map((own, i) => ({ ...own, seed: settings[(i + 1) % settings.length]?.seed ?? 0n }))),
  "adds the row's index to its position": (rows, row, settings) =>
    packOwn(rows, row, settings.map((own, i) => ({ ...own, position: (own.position ?? 0) + i }))),
  "turns top_k on for everybody when one row has it": (rows, row, settings) => {
    const topK = Math.max(...settings.map((own) => own.topK ?? 0));
    packOwn(rows, row, settings.map((own) => ({ ...own, topK })));
  },
};

for (const [fault, pack] of Object.entries(WRONG_PACKINGS)) {
  Deno.test(
    `the property notices a sampler that ${fault}`,
    withSampler((sampler) => {
      const details = checkMixes(({ rows, vocabSize }) => {
        assertEquals(sampleTogether(sampler, rows, vocabSize, pack), sampleAlone(sampler, rows, vocabSize));
      });
      assert(details.failed, "the property held");
    }),
  );
}
