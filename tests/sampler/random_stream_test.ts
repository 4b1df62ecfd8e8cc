/** What seeds mean. A change to any value here is a breaking change of the product: raise the ABI version and say so in the changelog. */
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { NativeError } from "../../src/native/native_error.ts";
import { modelLikeLogits, type RowSettings, withSampler } from "./row_sampler.ts";

const WORDS: readonly { readonly seed: bigint; readonly position: number; readonly words: readonly number[] }[] = [
  { seed: 0n, position: 0, words: [0x33fab076, 0x6cf71c15, 0x69514d7f, 0x70a17fd1] },
  { seed: 0n, position: 1, words: [0xf4127810, 0xa4d5976a, 0xf06bccee, 0xb62475c4] },
  { seed: 1n, position: 0, words: [0xcde63f62, 0xd0221977, 0x13cd1491, 0x4f751a50] },
  { seed: 42n, position: 3, words: [0xf805b714, 0x4a0d1dcb, 0x1844edee, 0x20c34a98] },
  { seed: 2n ** 63n, position: 0, words: [0x2bb0b7dc, 0xded91d4e, 0xb7a5a245, 0x57bb23d6] },
  { seed: 2n ** 64n - 1n, position: 2 ** 32 - 1, words: [0xd9284626, 0xf0269ca5, 0x6ab8e1ec, 0x4a2955d1] },
];

/** Tokens drawn at positions 0 … 7 from `modelLikeLogits(1000, 11)` with seed 2^40 + 5. */
const DRAWS: readonly { readonly settings: RowSettings; readonly tokens: readonly number[] }[] = [
  { settings: { temperature: 1 }, tokens: [868, 978, 563, 619, 878, 45, 978, 851] },
  { settings: { temperature: 0.7, topK: 40 }, tokens: [868, 978, 563, 619, 878, 45, 771, 771] },
  { settings: { temperature: 1.2, topP: 0.9 }, tokens: [868, 978, 563, 619, 878, 45, 978, 851] },
  { settings: { temperature: 1, minP: 0.05 }, tokens: [868, 978, 563, 619, 878, 45, 978, 851] },
  { settings: { temperature: 1.5, topNSigma: 1.5 }, tokens: [868, 978, 563, 619, 878, 45, 978, 851] },
  { settings: { temperature: 1.5, pLess: true }, tokens: [868, 868, 563, 868, 878, 45, 771, 851] },
  { settings: { temperature: 1, typicalP: 0.7 }, tokens: [868, 978, 563, 619, 878, 45, 978, 851] },
  { settings: { temperature: 1, xtcProbability: 0.5, xtcThreshold: 0.01 }, tokens: [868, 978, 563, 438, 878, 882, 569, 851] },
  { settings: { temperature: 2, temperatureLast: true, topP: 0.95 }, tokens: [868, 978, 563, 438, 645, 882, 978, 851] },
];

Deno.test(
  "the words of a seed and position are what they were",
  withSampler((sampler) => {
    for (const { seed, position, words } of WORDS) {
      assertEquals([...sampler.words(seed, position, 4)], [...words], `seed ${seed}, position ${position}`);
    }
  }),
);

Deno.test(
  "the tokens that a seed draws are what they were",
  withSampler((sampler) => {
    sampler.write(modelLikeLogits(1000, 11), 1000);
    for (const { settings, tokens } of DRAWS) {
      const drawn = tokens.map((_, position) => sampler.sample([{ ...settings, seed: 2n ** 40n + 5n, position }])[0]?.token);
      assertEquals(drawn, [...tokens], JSON.stringify(settings));
    }
  }),
);

Deno.test(
  "a token's noise does not depend on the size of the vocabulary",
  withSampler((sampler) => {
    assertEquals(sampler.words(9n, 4, 100), sampler.words(9n, 4, 3001).slice(0, 100));
    const narrow = modelLikeLogits(777, 2);
    const wide = new Float32Array(5000).fill(-Infinity);
    wide.set(narrow);
    for (let position = 0; position < 50; position++) {
      const settings = { temperature: 1.2, seed: 3n, position, numTopLogprobs: 20 };
      sampler.write(narrow, 777);
      const drawn = sampler.sample([settings]);
      sampler.write(wide, 5000);
      assertEquals(sampler.sample([settings]), drawn);
    }
  }),
);

Deno.test(
  "a token that survives a filter keeps its noise: a filter that keeps the drawn token does not change the draw",
  withSampler((sampler) => {
    sampler.write(modelLikeLogits(3000, 8), 3000);
    const filters: RowSettings[] = [{ topK: 50 }, { topP: 0.8 }, { minP: 0.02 }, { typicalP: 0.8 }, { topNSigma: 2 }, { pLess: true }];
    let numKept = 0;
    for (let position = 0; position < 100; position++) {
      const row = { temperature: 1, seed: 12n, position };
      const free = sampler.sample([row])[0]?.token ?? -1;
      for (const filter of filters) {
        if (sampler.distribution({ ...row, ...filter }).kept[free] !== 1) continue;
        numKept++;
        assertEquals(sampler.sample([{ ...row, ...filter }])[0]?.token, free, JSON.stringify({ ...filter, position }));
      }
    }
    assert(numKept > 100, `only ${numKept} draws were kept by a filter`);
  }),
);

Deno.test(
  "all 64 bits of a seed and all 32 bits of a position count",
  withSampler((sampler) => {
    const base = sampler.words(1234n, 77, 8);
    for (let bit = 0n; bit < 64n; bit++) assertNotEquals(sampler.words(1234n ^ (1n << bit), 77, 8), base, `seed bit ${bit}`);
    for (let bit = 0; bit < 32; bit++) assertNotEquals(sampler.words(1234n, (77 ^ (1 << bit)) >>> 0, 8), base, `position bit ${bit}`);
  }),
);

Deno.test(
  "a negative count of words is refused with its value",
  withSampler((sampler) => {
    const call = (): void =>
      sampler.library.check("rl_random_words", sampler.library.symbols.rl_random_words(1n, 0, new Uint32Array(1), -3));
    assertThrows(call, NativeError, "count is -3, allowed 0 or more");
  }),
);
