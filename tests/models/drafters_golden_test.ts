/** Every kind of drafter against the golden rounds: features, drafts, their logits, acceptance, and what is emitted. */
import { fileURLToPath } from "node:url";
import { assert, assertEquals } from "@std/assert";
import { readSafetensors } from "../../src/models/safetensors.ts";
import { type DraftRow, Speculation } from "./draft_rounds.ts";
import { TemporaryFolder } from "./temporary.ts";

const FOLDER = new URL("../fixtures/drafters/", import.meta.url);

interface GoldenRound {
  readonly drafts: readonly number[];
  readonly accepted: number;
  readonly emitted: readonly number[];
  /** Largest logit of each draft. */
  readonly top_logits: readonly number[];
}

interface GoldenSpeculation {
  readonly block_sizes: readonly number[];
  readonly max_tokens: number;
  readonly tolerance: { readonly max_abs_logit_diff: number };
  readonly prompts: readonly {
    readonly tokens: readonly number[];
    readonly logits: readonly number[];
    readonly greedy: readonly number[];
    readonly target_features: readonly number[];
    /** Of the first round at the largest block size; eagle3: over the draft vocabulary. */
    readonly draft_logits: readonly (readonly number[])[];
    readonly rounds: Readonly<Record<string, readonly GoldenRound[]>>;
  }[];
}

function assertClose(actual: ArrayLike<number>, expected: readonly number[], tolerance: number, what: string): void {
  assertEquals(actual.length, expected.length, what);
  const worst = expected.reduce((worst, value, i) => Math.max(worst, Math.abs((actual[i] ?? NaN) - value)), 0);
  assert(worst <= tolerance, `${what}: off by ${worst}, allowed are ${tolerance}`);
}

function checkRow(row: DraftRow, golden: GoldenSpeculation, index: number, blockSize: number): void {
  const prompt = golden.prompts[index]!;
  const expected = prompt.rounds[blockSize]!;
  const tolerance = golden.tolerance.max_abs_logit_diff;
  const what = `prompt ${index}, block size ${blockSize}`;
  assertClose(row.firstLogits, prompt.logits, tolerance, `${what}, logits`);
  assertEquals(
    row.rounds.map(({ drafts, accepted, emitted }) => ({ drafts, accepted, emitted })),
    expected.map(({ top_logits: _, ...round }) => round),
    what,
  );
  assertEquals(row.output, [...prompt.greedy], what);
  row.rounds.forEach(({ draftLogits }, i) =>
    assertClose(
      draftLogits.map((logits) => Math.max(...logits)),
      expected[i]!.top_logits,
      tolerance,
      `${what}, largest logits of round ${i}`,
    )
  );
  if (blockSize !== Math.max(...golden.block_sizes)) return;
  // Tokens that a draft vocabulary leaves out are -inf here and not there in the golden logits.
  prompt.draft_logits.forEach((logits, i) =>
    assertClose(row.rounds[0]!.draftLogits[i]!.filter((logit) => logit > -Infinity), logits, tolerance, what)
  );
}

function checkRounds(modelFolder: string, drafterFolder: string, golden: GoldenSpeculation, prompts: readonly number[]): void {
  for (const blockSize of golden.block_sizes) {
    using speculation = new Speculation(modelFolder, drafterFolder, prompts.length);
    const rows = speculation.start(prompts.map((index) => golden.prompts[index]!.tokens));
    speculation.promptFeatures(rows).forEach((features, i) => {
      const { target_features } = golden.prompts[prompts[i]!]!;
      assertClose(features, target_features, golden.tolerance.max_abs_logit_diff, `features of prompt ${prompts[i]}`);
    });
    while (speculation.round(rows, blockSize, golden.max_tokens));
    rows.forEach((row, i) => checkRow(row, golden, prompts[i]!, blockSize));
  }
}

function testCase(name: string, drafter: string, what: string): void {
  const golden: GoldenSpeculation = JSON.parse(Deno.readTextFileSync(new URL(`${name}/golden.json`, FOLDER)));
  const [model, own] = [name, `${name}/${drafter}`].map((path) => fileURLToPath(new URL(path, FOLDER))) as [string, string];
  const indices = golden.prompts.map((_, i) => i);
  Deno.test(`${what} gives the golden rounds for each prompt alone`, () => {
    for (const index of indices) checkRounds(model, own, golden, [index]);
  });
  Deno.test(`${what} gives the golden rounds for all prompts in one batch, in either order`, () => {
    checkRounds(model, own, golden, indices);
    checkRounds(model, own, golden, [...indices].reverse());
  });
}

testCase("qwen3_5-mtp", ".", "The MTP head of the model's own checkpoint");
testCase("qwen3_5-mtp", "drafter", "The MTP head in a folder of its own");
testCase("eagle3", "drafter", "EAGLE-3");
testCase("eagle3-norms", "drafter", "EAGLE-3 with norms before the fusion and the residual");
testCase("dflash", "drafter", "DFlash");
testCase("dflash-qwen3_5", "drafter", "DFlash on a model with recurrent layers");

Deno.test("EAGLE-3 gives the golden rounds from SGLang's layout too", () => {
  using folder = new TemporaryFolder();
  const source = new URL("eagle3/drafter/", FOLDER);
  const { transformer_layer_config, eagle_aux_hidden_state_layer_ids: ids, ...head } = JSON.parse(
    Deno.readTextFileSync(new URL("config.json", source)),
  );
  const config = {
    ...transformer_layer_config,
    architectures: ["LlamaForCausalLMEagle3"],
    draft_vocab_size: head.draft_vocab_size,
    eagle_config: { eagle_aux_hidden_state_layer_ids: ids.map((id: number) => id - 1) },
  };
  folder.write("config.json", JSON.stringify(config));
  const path = fileURLToPath(new URL("model.safetensors", source));
  const bytes = Deno.readFileSync(path);
  const header = Object.fromEntries(
    readSafetensors(path).map(({ name, type, shape, offset, byteLength }) => {
      const begin = offset - headerBytes(bytes);
      return [name.replace("layers.0.", "midlayer."), { dtype: type, shape, data_offsets: [begin, begin + byteLength] }];
    }),
  );
  folder.write("model.safetensors", withHeader(header, bytes.subarray(headerBytes(bytes))));
  const golden: GoldenSpeculation = JSON.parse(Deno.readTextFileSync(new URL("eagle3/golden.json", FOLDER)));
  checkRounds(fileURLToPath(new URL("eagle3", FOLDER)), folder.path, golden, [0, 2, 4]);
});

function headerBytes(file: Uint8Array): number {
  return 8 + Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
}

function withHeader(header: unknown, data: Uint8Array): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const file = new Uint8Array(8 + text.length + data.length);
  new DataView(file.buffer).setBigUint64(0, BigInt(text.length), true);
  file.set(text, 8);
  file.set(data, 8 + text.length);
  return file;
}
