/** The estimate of this side against what the native library takes. */
import { assert, assertEquals } from "@std/assert";
import { loadModel } from "../../src/models/checkpoint.ts";
import { type HeldType, weightBytes } from "../../src/models/memory_estimate.ts";
import { findLibrary, NativeLibrary } from "../../src/native/library.ts";
import type { TensorEntry } from "../../src/native/model_spec.ts";
import { NativeModel } from "../../src/native/native_model.ts";
import { modelTest } from "../test_model.ts";
import { checkpointPath, goldenCases } from "./golden_model.ts";

/** Norms of heads are repeated for every head, and a few constants come on top. */
const SLACK = 1.03;

function takenBytes(path: string, dtype: HeldType): number {
  const library = NativeLibrary.open(findLibrary());
  try {
    const model = NativeModel.load(library, loadModel(path, { dtype }).spec);
    const { weightBytes } = model.info;
    model.close();
    return weightBytes;
  } finally {
    library.close();
  }
}

function compare(what: string, path: string, dtype: HeldType): void {
  const estimated = weightBytes(loadModel(path).spec, dtype, false);
  const taken = takenBytes(path, dtype);
  assert(estimated <= taken * SLACK && taken <= estimated * SLACK, `${what} as ${dtype}: ${estimated} bytes estimated, ${taken} taken`);
}

const isCpu = ((): boolean => {
  const library = NativeLibrary.open(findLibrary());
  const { device } = library.buildInfo();
  library.close();
  return device === "cpu";
})();

Deno.test({
  name: "what weights take in memory is known before they are loaded, for every stored type and compute type",
  ignore: !isCpu,
  fn: () => {
    for (const [name] of goldenCases()) {
      for (const dtype of ["float32", "bfloat16", "stored"] as const) compare(name, checkpointPath(name), dtype);
    }
  },
});

modelTest("the default model's blocks are known too", (path) => {
  if (!isCpu) return;
  compare("the default model", path, "stored");
  compare("the default model", path, "float32");
});

Deno.test("on a GPU quantized matrices stay packed, with scales and biases in half precision", () => {
  const tensor = (type: string, shape: readonly number[], byteLength: number, name = "x.weight"): TensorEntry => ({
    name,
    type,
    shape,
    byteLength,
    file: "f",
    offset: 0,
  });
  const bytes = (...tensors: TensorEntry[]): number =>
    weightBytes({ config: { quant_bits: 4, quant_group_size: 64 }, tensors }, "stored", true);
  assertEquals(bytes(tensor("Q4_0", [2, 64], 72)), 2 * (32 + 2 * 4));
  assertEquals(bytes(tensor("Q5_K", [1, 256], 176)), 160 + 8 * 4);
  assertEquals([bytes(tensor("Q6_K", [1, 256], 210)), bytes(tensor("BF16", [4, 4], 32)), bytes(tensor("F32", [4, 4], 64))], [512, 32, 64]);
  assertEquals(bytes(tensor("U32", [1, 8], 32), tensor("F16", [1, 1], 2, "x.scales"), tensor("F16", [1, 1], 2, "x.biases")), 36);
});
