import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { findLibrary, NativeLibrary } from "../../src/native/library.ts";
import { NativeError } from "../../src/native/native_error.ts";
import { NativeModel } from "../../src/native/native_model.ts";
import { StepOutput } from "../../src/native/step_output.ts";
import { ROW_WORDS, StructArray } from "../../src/native/structs.ts";
import { makeTinyModel, TINY } from "./tiny_model.ts";

type Row = readonly [slot: number, offset: number, tokens: readonly number[], outputs: number];

/** A loaded tiny model with one cache and one output. */
class Fixture {
  readonly library = NativeLibrary.open(findLibrary());
  readonly #tiny = makeTinyModel();
  readonly model = NativeModel.load(this.library, this.#tiny.spec);
  readonly cache = this.model.newCache();
  readonly output = new StepOutput(this.library);

  /** Logits of all outputs, row after row. */
  forward(...rows: Row[]): Float32Array[] {
    const structs = new StructArray(ROW_WORDS, rows.length);
    for (const [i, [slot, offset, tokens, outputs]] of rows.entries()) {
      structs.int32.set([slot, offset, tokens.length, outputs], i * ROW_WORDS);
    }
    const tokens = Int32Array.from(rows.flatMap(([, , ids]) => [...ids]));
    this.model.forward(this.cache, this.output, tokens, tokens.length, structs, rows.length);
    const numOutputs = rows.reduce((sum, [, , , outputs]) => sum + outputs, 0);
    if (numOutputs === 0) return [];
    const logits = new Float32Array(numOutputs * TINY.vocabSize);
    this.output.read(logits);
    return Array.from({ length: numOutputs }, (_, i) => logits.subarray(i * TINY.vocabSize, (i + 1) * TINY.vocabSize));
  }

  close(): void {
    this.output.close();
    this.model.close();
    this.#tiny.remove();
    this.library.close();
  }
}

function withModel(body: (fixture: Fixture) => void): void {
  const fixture = new Fixture();
  try {
    body(fixture);
  } finally {
    fixture.close();
  }
}

function assertClose(actual: Float32Array | undefined, expected: Float32Array | undefined): void {
  assert(actual && expected && actual.length === expected.length);
  for (const [i, value] of expected.entries()) {
    assertAlmostEquals(actual[i] ?? NaN, value, 1e-4, `logit ${i}: ${actual[i]} is not ${value}`);
  }
}

const PROMPT = [3, 14, 15, 92, 65, 35, 89, 79];

Deno.test("a loaded model tells its sizes", () =>
  withModel(({ model }) => {
    const { vocabSize, hiddenSize, numLayers, kvBytesPerToken, weightBytes } = model.info;
    assertEquals([vocabSize, hiddenSize, numLayers], [TINY.vocabSize, TINY.hiddenSize, TINY.numLayers]);
    assertEquals(kvBytesPerToken, 2 * TINY.numLayers * TINY.numKvHeads * TINY.headDim * 4);
    assert(weightBytes > 0);
  }));

Deno.test("a prompt gives the same logits in one pass, in chunks, and in another slot beside other rows", () =>
  withModel((fixture) => {
    fixture.cache.resize(4, 64);
    const [whole] = fixture.forward([0, 0, PROMPT, 1]);
    fixture.forward([1, 0, PROMPT.slice(0, 5), 0]);
    const [chunked] = fixture.forward([1, 5, PROMPT.slice(5), 1]);
    assertClose(chunked, whole);
    const beside = fixture.forward([0, 0, [7], 1], [2, 0, [1, 2, 3], 2], [3, 0, PROMPT, 1]);
    assertEquals(beside.length, 4);
    assertClose(beside[3], whole);
  }));

Deno.test("a row that moves to another slot, and a cache that is resized, keep their tokens", () =>
  withModel((fixture) => {
    fixture.cache.resize(2, 64);
    const [, expected] = fixture.forward([0, 0, PROMPT, 2]);
    fixture.forward([1, 0, PROMPT.slice(0, -1), 0]);
    fixture.cache.move(1, 0, PROMPT.length - 1);
    fixture.cache.resize(1, 128);
    assertClose(fixture.forward([0, PROMPT.length - 1, PROMPT.slice(-1), 1])[0], expected);
    assertEquals([fixture.cache.info().slots, fixture.cache.info().capacity], [1, 128]);
    fixture.cache.resize(0, 0);
    assertEquals(fixture.cache.info().bytes, 0);
  }));

Deno.test("a slot that is cleared holds nothing of the row that was there", () =>
  withModel((fixture) => {
    fixture.cache.resize(1, 64);
    const [expected] = fixture.forward([0, 0, [5], 1]);
    fixture.forward([0, 0, PROMPT, 0]);
    fixture.cache.clear(0);
    const [, zeros] = fixture.forward([0, 0, [5, 6], 2]);
    assertClose(fixture.forward([0, 0, [5], 1])[0], expected);
    fixture.cache.clear(0);
    // Position 0 is zeros now, not token 5: the logits of position 1 are others.
    assert(zeros?.join() !== fixture.forward([0, 1, [6], 1])[0]?.join());
    assertThrows(() => fixture.cache.clear(1), NativeError, "rl_cache_clear failed (argument)");
  }));

Deno.test("arguments outside their domain are refused with a text and leave the model usable", () =>
  withModel((fixture) => {
    fixture.cache.resize(1, 64);
    for (
      const row of [[1, 0, [1], 1], [0, 64, [1], 1], [0, 0, [TINY.vocabSize], 1], [0, 0, [-1], 1], [0, 0, [1], 2], [-1, 0, [1], 1]] as const
    ) {
      const error = assertThrows(() => fixture.forward(row), NativeError);
      assertEquals(error.kind, "argument", `${row}: ${error.message}`);
    }
    assertThrows(() => fixture.cache.move(0, 5, 1), NativeError);
    assertThrows(() => fixture.cache.resize(-1, 64), NativeError);
    assertEquals(fixture.forward([0, 0, PROMPT, 1]).length, 1);
  }));

Deno.test("a checkpoint that misses a tensor or does not fit its config is refused", () => {
  const library = NativeLibrary.open(findLibrary());
  const tiny = makeTinyModel();
  const { config, tensors } = tiny.spec;
  const broken = [
    { config, tensors: tensors.slice(1) },
    { config: { ...config, hidden_size: 64 }, tensors },
    { config: { ...config, model_type: "no-such-model" }, tensors },
    { config, tensors: tensors.map((tensor, i) => i === 0 ? { ...tensor, offset: 2 ** 40 } : tensor) },
    { config, tensors: tensors.map((tensor) => ({ ...tensor, file: tensor.file + ".gone" })) },
  ];
  for (const [i, spec] of broken.entries()) {
    const error = assertThrows(() => NativeModel.load(library, spec), NativeError, "rl_model_load failed");
    assert(error.kind === "model" || error.kind === "argument", `case ${i}: ${error.message}`);
  }
  tiny.remove();
  library.close();
});

Deno.test("closed handles refuse to be used, closing twice is fine, and a model closes its caches", () => {
  const fixture = new Fixture();
  fixture.close();
  fixture.model.close();
  assertThrows(() => fixture.model.newCache(), TypeError, "it is closed");
  assertThrows(() => fixture.cache.resize(1, 64), TypeError, "it is closed");
  assertThrows(() => fixture.output.read(new Float32Array(1)), TypeError, "it is closed");
});
