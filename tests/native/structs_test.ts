import { assert, assertEquals } from "@std/assert";
import { SampledRows, StructArray } from "../../src/native/structs.ts";

Deno.test("an array of structs keeps its contents when it grows, and its views show one memory", () => {
  const structs = new StructArray(4, 1);
  structs.int32.set([7, 8, 9, 10]);
  structs.reserve(5);
  structs.float32[4] = 1;
  assert(structs.capacity >= 5);
  assertEquals([...structs.int32.subarray(0, 5)], [7, 8, 9, 10, 0x3f80_0000]);
  assertEquals(structs.bytes.byteLength, structs.capacity * 16);
});

Deno.test("structs move and are copied as a whole", () => {
  const structs = new StructArray(2, 3);
  structs.int32.set([1, 2, 3, 4, 5, 6]);
  structs.move(2, 0);
  const target = new StructArray(2);
  target.copyFrom(structs, 0, 2, 1);
  assertEquals([...target.int32.subarray(0, 6)], [0, 0, 5, 6, 3, 4]);
});

Deno.test("sampled rows are read as the header lays rl_sampled out", () => {
  const sampled = new SampledRows();
  sampled.reserve(2, false);
  const view = new DataView(sampled.structs.bytes);
  view.setInt32(16, 42, true);
  view.setFloat32(20, -1.5, true);
  view.setUint32(24, 1, true);
  view.setInt32(28, 9, true);
  assertEquals([sampled.token(1), sampled.logprob(1), sampled.isBroken(1), sampled.numKept(1)], [42, -1.5, true, 9]);
  assertEquals([sampled.token(0), sampled.isBroken(0)], [0, false]);
});

Deno.test("room for alternatives is made only when they are asked for", () => {
  const sampled = new SampledRows();
  sampled.reserve(3, false);
  assertEquals(sampled.topTokens.length, 0);
  sampled.reserve(3, true);
  assertEquals([sampled.topTokens.length, sampled.topLogprobs.length], [60, 60]);
});
