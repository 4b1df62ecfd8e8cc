/** Every golden checkpoint through config, tensor table and native library. */
import { assert, assertEquals } from "@std/assert";
import type { LoadOptions } from "../../src/models/checkpoint.ts";
import { argmax, type GoldenCase, goldenCases, GoldenModel, type GoldenPrompt } from "./golden_model.ts";

type Dtype = NonNullable<LoadOptions["dtype"]>;

/** Full precision, matrices as they are stored, and the checkpoint's own type, whose rounding its tolerance allows for. */
function dtypesOf(golden: GoldenCase): Dtype[] {
  return golden.dtype === "float32" ? ["float32", "stored"] : ["float32", "stored", golden.dtype];
}

function largestDifference(logits: Float32Array, expected: readonly number[]): number {
  return expected.reduce((worst, value, i) => Math.max(worst, Math.abs(value - (logits[i] ?? NaN))), 0);
}

function assertLogits(logits: Float32Array | undefined, prompt: GoldenPrompt, { tolerance }: GoldenCase, what: string): void {
  assert(logits !== undefined && logits.length === prompt.logits.length, what);
  const difference = largestDifference(logits, prompt.logits);
  const exactDifference = largestDifference(logits, prompt.logits_exact ?? [NaN]);
  const isClose = difference <= tolerance.max_abs_logit_diff || exactDifference <= (tolerance.max_abs_logit_diff_exact ?? 0);
  assert(isClose, `${what}: off by ${difference}, from the exact logits by ${exactDifference}; allowed are ${JSON.stringify(tolerance)}`);
}

/** Continues every prompt by arg-max, all in one batch, from the logits of the prompts. */
function continueGreedily(model: GoldenModel, prompts: readonly GoldenPrompt[], first: readonly Float32Array[]): number[][] {
  const ids = first.map((logits) => [argmax(logits)]);
  for (let step = 1; step < prompts[0]!.greedy.length; step++) {
    const rows = prompts.map((prompt, slot) => ({
      slot,
      offset: prompt.tokens.length + step - 1,
      tokens: [ids[slot]![step - 1]!],
      numOutputs: 1,
    }));
    model.run(...rows).forEach((logits, slot) => ids[slot]!.push(argmax(logits)));
  }
  return ids;
}

function testPrompts(model: GoldenModel, golden: GoldenCase): void {
  for (const prompt of golden.prompts) {
    const { tokens } = prompt;
    const half = tokens.length >> 1;
    const [whole] = model.run({ slot: 1, offset: 0, tokens, numOutputs: 1 });
    assertLogits(whole, prompt, golden, `${tokens.length} tokens at once`);
    if (half > 0) model.run({ slot: 5, offset: 0, tokens: tokens.slice(0, half), numOutputs: 0 });
    model.cache.move(5, 2, half);
    const [rest] = model.run({ slot: 2, offset: half, tokens: tokens.slice(half), numOutputs: 1 });
    assertLogits(rest, prompt, golden, `${tokens.length} tokens in two chunks, with the row moved between them`);
  }
}

function testBatch(model: GoldenModel, golden: GoldenCase): void {
  const { prompts } = golden;
  const first = model.run(...prompts.map(({ tokens }, slot) => ({ slot, offset: 0, tokens, numOutputs: 1 })));
  prompts.forEach((prompt, i) => assertLogits(first[i], prompt, golden, `prompt ${i} in a batch`));
  assertEquals(continueGreedily(model, prompts, first), prompts.map(({ greedy }) => [...greedy]));
}

function testPositions(model: GoldenModel, golden: GoldenCase): void {
  const { tokens } = golden.prompts[golden.per_position.prompt]!;
  const logits = model.run({ slot: 0, offset: 0, tokens, numOutputs: tokens.length });
  assertEquals(logits.map(argmax), golden.per_position.argmax);
}

for (const [name, golden] of goldenCases()) {
  for (const dtype of dtypesOf(golden)) {
    Deno.test(`${name} as ${dtype} gives the golden logits and tokens, alone and in a ragged batch, whole and in chunks`, () => {
      using model = new GoldenModel(name, dtype);
      testPrompts(model, golden);
      testBatch(model, golden);
      testPositions(model, golden);
    });
  }
}

Deno.test("Quantized checkpoints stay quantized when they are kept as stored", () => {
  for (const [name, factor] of [["llama-q4", 4], ["qwen3moe-q4", 4], ["qwen3-q8", 3]] as const) {
    using stored = new GoldenModel(name, "stored");
    using dense = new GoldenModel(name, "float32");
    const { weightBytes } = stored.model.info;
    assert(weightBytes * factor < dense.model.info.weightBytes, `${name}: ${weightBytes} bytes of ${dense.model.info.weightBytes}`);
  }
});

Deno.test("Weights and KV take half the memory in half precision", () => {
  using half = new GoldenModel("llama-bf16", "bfloat16");
  using full = new GoldenModel("llama-bf16", "float32");
  const [a, b] = [half.model.info, full.model.info];
  assertEquals([2 * a.weightBytes, 2 * a.kvBytesPerToken, a.computeType, b.computeType], [
    b.weightBytes,
    b.kvBytesPerToken,
    "bfloat16",
    "float32",
  ]);
});
