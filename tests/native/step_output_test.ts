import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { packSampling } from "../../src/engine/sampling_batch.ts";
import { GREEDY, type SamplingConfig } from "../../src/engine/sampling.ts";
import { findLibrary, NativeLibrary } from "../../src/native/library.ts";
import { type SampleCall, StepOutput } from "../../src/native/step_output.ts";
import { EDIT_WORDS, SampledRows, SAMPLING_FIELD, SAMPLING_WORDS, StructArray } from "../../src/native/structs.ts";

const VOCAB_SIZE = 40;

function withOutput(body: (output: StepOutput, library: NativeLibrary) => void): void {
  const library = NativeLibrary.open(findLibrary());
  const output = new StepOutput(library);
  try {
    body(output, library);
  } finally {
    output.close();
    library.close();
  }
}

function callOf(configs: Partial<SamplingConfig>[]): SampleCall & { numEdits: number; numMasks: number } {
  const rows = new StructArray(SAMPLING_WORDS, configs.length);
  for (const [i, config] of configs.entries()) packSampling(rows, i, { ...GREEDY, ...config });
  const hasAlternatives = configs.some(({ numTopLogprobs = -1 }) => numTopLogprobs > 0);
  const edits = new StructArray(EDIT_WORDS, 4);
  const masks = new Uint32Array(4);
  return { rows, numRows: configs.length, edits, numEdits: 0, masks, numMasks: 0, hasAlternatives, sampled: new SampledRows() };
}

/** `numRows` rows in which token 5 is best, then 9. */
function logits(numRows: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: numRows * VOCAB_SIZE }, (_, i) => ({ 5: 3, 9: 2 })[i % VOCAB_SIZE] ?? 0);
}

Deno.test("logits that were written are read back", () =>
  withOutput((output) => {
    const written = logits(2);
    output.write(written, VOCAB_SIZE);
    const read = new Float32Array(written.length);
    output.read(read);
    assertEquals(read, written);
  }));

Deno.test("half-precision logits are given by their bits", () =>
  withOutput((output) => {
    const read = new Float32Array(2);
    output.write(Uint16Array.of(0x3c00, 0xc000), 2, "float16");
    output.read(read);
    assertEquals([...read], [1, -2]);
    output.write(Uint16Array.of(0x3f80, 0xc000), 2, "bfloat16");
    output.read(read);
    assertEquals([...read], [1, -2]);
    assertThrows(() => output.write(Float32Array.of(1, 2), 2, "float16"), TypeError);
    assertThrows(() => output.write(Float32Array.of(1, 2, 3), 2), RangeError, "3 logits");
  }));

Deno.test("each row is drawn by its own entry: greedy, edited, masked, with logprobs", () =>
  withOutput((output) => {
    output.write(logits(4), VOCAB_SIZE);
    const call = callOf([{}, {}, {}, { numTopLogprobs: 2 }]);
    const field = (row: number, name: keyof typeof SAMPLING_FIELD, value: number): void => {
      call.rows.int32[row * SAMPLING_WORDS + SAMPLING_FIELD[name]] = value;
    };
    call.edits.int32[0] = 5;
    call.edits.float32.set([-Infinity, 1, 0], 1);
    call.numEdits = 1;
    field(1, "editsEnd", 1);
    call.masks[0] = 1 << 7;
    call.numMasks = 1;
    field(2, "mask", 0);
    output.sample(call);
    assertEquals([0, 1, 2, 3].map((row) => call.sampled.token(row)), [5, 9, 7, 5]);
    const total = Math.exp(3) + Math.exp(2) + VOCAB_SIZE - 2;
    assertAlmostEquals(call.sampled.logprob(3), 3 - Math.log(total), 1e-5);
    assertEquals([...call.sampled.topTokens.subarray(60, 62)], [5, 9]);
    assertAlmostEquals(call.sampled.topLogprobs[61] ?? NaN, 2 - Math.log(total), 1e-5);
  }));

Deno.test("a row without a logit above -inf is broken and its neighbours are not", () =>
  withOutput((output) => {
    const values = logits(3);
    values.fill(-Infinity, VOCAB_SIZE, 2 * VOCAB_SIZE);
    output.write(values, VOCAB_SIZE);
    const call = callOf([{}, { temperature: 1, seed: 3n }, {}]);
    output.sample(call);
    assertEquals([0, 1, 2].map((row) => call.sampled.isBroken(row)), [false, true, false]);
    assertEquals([0, 1, 2].map((row) => call.sampled.token(row)), [5, -1, 5]);
  }));

Deno.test("rows drawn together equal each row drawn alone", () =>
  withOutput((output) => {
    const configs = Array.from(
      { length: 8 },
      (_, i) => ({ temperature: i / 4, seed: BigInt(i % 3), topK: i, topP: 1 - i / 20, minP: i / 50 }),
    );
    const values = Float32Array.from({ length: 8 * VOCAB_SIZE }, (_, i) => Math.sin(i * 12.9898) * 3);
    output.write(values, VOCAB_SIZE);
    const together = callOf(configs);
    output.sample(together);
    for (const [row, config] of configs.entries()) {
      output.write(values.slice(row * VOCAB_SIZE, (row + 1) * VOCAB_SIZE), VOCAB_SIZE);
      const alone = callOf([config]);
      output.sample(alone);
      assertEquals(alone.sampled.token(0), together.sampled.token(row), `row ${row}`);
    }
  }));

Deno.test("the law of a draw is told for one row", () =>
  withOutput((output) => {
    output.write(logits(2), VOCAB_SIZE);
    const { kept, probabilities } = output.distribution(1, callOf([{}, { temperature: 1, topK: 2 }]), 1, VOCAB_SIZE);
    assertEquals([...kept.entries()].filter(([, isKept]) => isKept === 1).map(([id]) => id), [5, 9]);
    assertAlmostEquals(probabilities[5] ?? NaN, 1 / (1 + Math.exp(-1)), 1e-6);
  }));

Deno.test("random words depend on seed and position and on nothing else", () =>
  withOutput((_, library) => {
    const words = library.randomWords(2n ** 64n - 1n, 7, 16);
    assertEquals(library.randomWords(2n ** 64n - 1n, 7, 16), words);
    assertEquals(library.randomWords(2n ** 64n - 1n, 7, 4), words.slice(0, 4));
    for (const other of [library.randomWords(2n ** 32n - 1n, 7, 16), library.randomWords(2n ** 64n - 1n, 8, 16)]) {
      assert(other.join() !== words.join());
    }
  }));
