import { assert, assertEquals } from "@std/assert";
import { modelLikeLogits, type RowSampler, type RowSettings, withSampler } from "./row_sampler.ts";

interface GoldenVector {
  readonly name: string;
  readonly logits: readonly (number | null)[];
  readonly params: Readonly<Record<string, number | boolean>>;
  readonly keep: readonly number[];
  readonly probs: readonly number[];
}

const { vectors } = JSON.parse(
  Deno.readTextFileSync(new URL("../fixtures/golden/sampler.json", import.meta.url)),
) as { vectors: GoldenVector[] };

const SETTING_NAMES: Readonly<Record<string, keyof RowSettings>> = {
  temperature: "temperature",
  top_k: "topK",
  top_p: "topP",
  min_p: "minP",
  top_n_sigma: "topNSigma",
  p_less: "pLess",
  typical_p: "typicalP",
  temperature_last: "temperatureLast",
};

function settingsOf(vector: GoldenVector): RowSettings {
  const settings: Record<string, number | boolean> = { temperature: 1 };
  for (const [name, value] of Object.entries(vector.params)) {
    const setting = SETTING_NAMES[name];
    assert(setting !== undefined, `${vector.name}: unknown parameter ${name}`);
    settings[setting] = value;
  }
  return settings;
}

/** Where token `id` of a vector lies in a vocabulary of `vocabSize`: spread out, in the same order. */
function placeOf(id: number, vector: GoldenVector, vocabSize: number): number {
  return Math.floor((id * vocabSize) / vector.logits.length);
}

/** Writes the vector's row among tokens of logit -inf. */
function writeVector(sampler: RowSampler, vector: GoldenVector, vocabSize: number): void {
  const logits = new Float32Array(vocabSize).fill(-Infinity);
  vector.logits.forEach((logit, id) => logits[placeOf(id, vector, vocabSize)] = logit ?? -Infinity);
  sampler.write(logits, vocabSize);
}

function checkVector(sampler: RowSampler, vector: GoldenVector, vocabSize: number): void {
  writeVector(sampler, vector, vocabSize);
  const settings = settingsOf(vector);
  const { kept, probabilities } = sampler.distribution(settings);
  const found = [...kept.keys()].filter((token) => kept[token] === 1);
  const label = `${vector.name} at ${vocabSize} tokens, ${JSON.stringify(vector.params)}`;
  assertEquals(found, vector.keep.map((id) => placeOf(id, vector, vocabSize)), label);
  found.forEach((token, i) => {
    const expected = vector.probs[i] ?? Number.NaN;
    const p = probabilities[token] ?? Number.NaN;
    assert(Math.abs(p - expected) <= 1e-4 * expected, `${label}: token ${token} has probability ${p}, expected ${expected}`);
  });
  assertEquals(probabilities.filter((p) => p > 0).length, found.length, `${label}: probabilities outside the survivors`);
  for (let position = 0; position < 3; position++) {
    const drawn = sampler.sample([{ ...settings, seed: 7n, position }])[0];
    assert(drawn && kept[drawn.token] === 1, `${label}: drew ${drawn?.token}, which is not kept`);
    assertEquals(drawn.numKept, found.length, label);
  }
}

Deno.test(
  "every golden vector gives its keep set and probabilities",
  withSampler((sampler) => {
    assertEquals(vectors.length, 176);
    for (const vector of vectors) checkVector(sampler, vector, vector.logits.length);
  }),
);

for (const vocabSize of [8192, 32000, 151936]) {
  Deno.test(
    `every golden vector gives the same among ${vocabSize} tokens`,
    withSampler((sampler) => {
      for (const vector of vectors) checkVector(sampler, vector, vocabSize);
    }),
  );
}

/** The upper half of a float32, which is a bfloat16. */
function bfloat16Bits(value: number): number {
  return (new Uint32Array(new Float32Array([value]).buffer)[0] ?? 0) >>> 16;
}

function bfloat16Value(bits: number): number {
  return new Float32Array(new Uint32Array([bits << 16]).buffer)[0] ?? Number.NaN;
}

/** A normal float16 near `value`, cut to 10 bits of fraction; below the normal range it is 0. */
function float16Bits(value: number): number {
  const bits = new Uint32Array(new Float32Array([value]).buffer)[0] ?? 0;
  const exponent = ((bits >>> 23) & 0xff) - 127 + 15;
  return exponent <= 0 ? 0 : ((bits >>> 16) & 0x8000) | (exponent << 10) | ((bits >>> 13) & 0x3ff);
}

function float16Value(bits: number): number {
  const magnitude = bits & 0x7fff;
  if (magnitude === 0) return 0;
  return (bits & 0x8000 ? -1 : 1) * 2 ** ((magnitude >> 10) - 15) * (1 + (magnitude & 0x3ff) / 1024);
}

const HALF_TYPES = [
  { dtype: "float16", toBits: float16Bits, toValue: float16Value },
  { dtype: "bfloat16", toBits: bfloat16Bits, toValue: bfloat16Value },
] as const;

const HALF_SETTINGS: readonly RowSettings[] = [
  { temperature: 0 },
  { temperature: 1 },
  { temperature: 0.7, topK: 40 },
  { temperature: 1.3, topP: 0.9 },
  { temperature: 1, minP: 0.05 },
  // A float16 sum of squares over such a vocabulary is infinite: the filter would be silently off.
  { temperature: 1, topNSigma: 1 },
  { temperature: 1, pLess: true },
  { temperature: 1, typicalP: 0.9 },
  { temperature: 1.5, topNSigma: 2, typicalP: 0.95, topK: 100, topP: 0.95, minP: 0.01 },
];

for (const { dtype, toBits, toValue } of HALF_TYPES) {
  for (const vocabSize of [8192, 32000, 151936]) {
    Deno.test(
      `${dtype} logits of ${vocabSize} tokens are sampled as the float32 numbers that they are`,
      withSampler((sampler) => {
        const bits = Uint16Array.from(modelLikeLogits(vocabSize, 3), toBits);
        const values = Float32Array.from(bits, toValue);
        for (const settings of HALF_SETTINGS) {
          const rows = [0, 1, 2].map((position) => ({ ...settings, seed: 5n, position, numTopLogprobs: 20 }));
          sampler.write(values, vocabSize);
          const wide = [sampler.distribution(settings), rows.map((row) => sampler.sample([row]))];
          sampler.write(bits, vocabSize, dtype);
          assertEquals([sampler.distribution(settings), rows.map((row) => sampler.sample([row]))], wide, JSON.stringify(settings));
        }
        assert(sampler.distribution({ temperature: 1, topNSigma: 1 }).kept.includes(0), "top_n_sigma dropped nothing");
      }),
    );
  }
}
