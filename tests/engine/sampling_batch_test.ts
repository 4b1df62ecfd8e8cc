import { assert, assertEquals } from "@std/assert";
import { RowTable } from "../../src/engine/rows.ts";
import { packSampling, SamplingBatch } from "../../src/engine/sampling_batch.ts";
import { GREEDY } from "../../src/engine/sampling.ts";
import { Sequence } from "../../src/engine/sequence.ts";
import { EDIT_WORDS, SAMPLING_FIELD as FIELD, SAMPLING_WORDS, StructArray } from "../../src/native/structs.ts";
import { request } from "./requests.ts";

Deno.test("a configuration is packed exactly as the header lays rl_sampling out", () => {
  const structs = new StructArray(SAMPLING_WORDS, 2);
  packSampling(structs, 1, {
    ...GREEDY,
    seed: 0xfedc_ba98_7654_3210n,
    temperature: 0.75,
    topP: 0.5,
    topK: 40,
    minP: 0.125,
    topNSigma: 1.5,
    pLess: true,
    typicalP: 0.25,
    temperatureLast: true,
    xtcProbability: 0.5,
    xtcThreshold: 0.0625,
    numTopLogprobs: 7,
  });
  const view = new DataView(structs.bytes, 64, 64);
  assertEquals(view.getBigUint64(0, true), 0xfedc_ba98_7654_3210n);
  assertEquals([view.getUint32(8, true), view.getUint32(12, true)], [0, 3]);
  const floatOffsets = [16, 20, 28, 32, 36, 40, 44];
  assertEquals(floatOffsets.map((offset) => view.getFloat32(offset, true)), [0.75, 0.5, 0.125, 1.5, 0.25, 0.5, 0.0625]);
  assertEquals([24, 48, 52, 56, 60].map((offset) => view.getInt32(offset, true)), [40, 7, 0, 0, -1]);
});

Deno.test("a top_k beyond int32 is packed as the largest one, which is off for any vocabulary", () => {
  const structs = new StructArray(SAMPLING_WORDS, 1);
  packSampling(structs, 0, { ...GREEDY, topK: 2 ** 53 });
  assertEquals(structs.int32[FIELD.topK], 2 ** 31 - 1);
});

Deno.test("rows without alternatives, edits or masks ask for none of them", () => {
  const { batch, rows } = tableOf([{}, { temperature: 1, numTopLogprobs: 0 }]);
  batch.begin();
  for (const row of rows) batch.add(row);
  const { numRows, numEdits, numMasks, hasAlternatives } = batch.call;
  assertEquals({ numRows, numEdits, numMasks, hasAlternatives }, { numRows: 2, numEdits: 0, numMasks: 0, hasAlternatives: false });
});

Deno.test("every row points at its own edits and its own mask", () => {
  const { batch, rows } = tableOf([
    { logitBias: new Map([[3, 1], [4, 2]]) },
    { allowedTokenIds: [0, 33, 99] },
    {},
    { logitBias: new Map([[7, 5]]), allowedTokenIds: [31] },
  ]);
  // A second step must not see anything of the first.
  for (let steps = 0; steps < 2; steps++) {
    batch.begin();
    for (const row of rows) batch.add(row);
  }
  const { call } = batch;
  const field = (row: number, name: keyof typeof FIELD): number => call.rows.int32[row * SAMPLING_WORDS + FIELD[name]] ?? NaN;
  assertEquals(rows.map((_, row) => [field(row, "editsBegin"), field(row, "editsEnd"), field(row, "mask")]), [
    [0, 2, -1],
    [2, 2, 0],
    [2, 2, -1],
    [2, 3, 1],
  ]);
  assertEquals([...call.masks.subarray(0, 8)], [1, 2, 0, 8, 0x8000_0000, 0, 0, 0]);
  assertEquals([0, 1, 2].map((i) => call.edits.int32[i * EDIT_WORDS]), [3, 4, 7]);
});

Deno.test("the position of a draw is the index of the token among the row's generated tokens", () => {
  const { batch, rows: [row] } = tableOf([{}]);
  assert(row);
  row.advanceCache(3);
  const positions = [0, 1, 2].map(() => {
    batch.begin();
    batch.add(row);
    row.append(5);
    return batch.call.rows.uint32[FIELD.position];
  });
  assertEquals(positions, [0, 1, 2]);
});

function tableOf(samplings: NonNullable<Parameters<typeof request>[1]>["sampling"][]): { batch: SamplingBatch; rows: readonly Sequence[] } {
  const batch = new SamplingBatch(100);
  const table = new RowTable(8, [batch]);
  table.append(samplings.map((sampling, i) => new Sequence(request(`r${i}`, { sampling: sampling ?? {} }), i, 0)));
  return { batch, rows: table.sequences };
}
