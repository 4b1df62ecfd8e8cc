import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { fileURLToPath } from "node:url";
import { checkComputeFlags, chooseComputeType, type ComputeTypeSettings } from "../../src/cli/compute_type.ts";
import { UsageError } from "../../src/cli/flags.ts";
import { loadModel } from "../../src/models/checkpoint.ts";
import { weightBytes } from "../../src/models/memory_estimate.ts";

const FOLDER = new URL("../fixtures/golden/", import.meta.url);
const MUCH = 1e9;

/** Compute type, bytes and text for a golden checkpoint. */
function choose(name: string, change: Partial<ComputeTypeSettings>): [unknown, number, string] {
  const loaded = loadModel(fileURLToPath(new URL(name, FOLDER)));
  const { model, weightBytes, text } = chooseComputeType(loaded, {
    dtype: "auto",
    kvBits: "auto",
    isGpu: false,
    memoryBytes: MUCH,
    ...change,
  });
  return [model.spec.config["dtype"], weightBytes, text];
}

Deno.test("weights stay as they are stored, with the figures, as long as memory allows", () => {
  const [dtype, numBytes, text] = choose("llama-q4", {});
  assertEquals(dtype, "auto");
  assertEquals(numBytes, weightBytes(loadModel(fileURLToPath(new URL("llama-q4", FOLDER))).spec, "stored", false));
  assertStringIncludes(text, "weights as stored: 1 MB of the 875 MB that they may take");
});

Deno.test("what --dtype says holds, on every device and with any memory", () => {
  for (const isGpu of [false, true]) {
    for (const dtype of ["float32", "float16", "bfloat16"] as const) {
      const [chosen, numBytes, text] = choose("llama-bf16", { dtype, isGpu, memoryBytes: 1 });
      const [, half] = choose("llama-bf16", { dtype: "bfloat16", isGpu });
      assertEquals([chosen, numBytes], [dtype, dtype === "float32" ? 2 * half : half]);
      assertStringIncludes(text, `weights in ${dtype}, by --dtype`);
    }
  }
});

Deno.test("a float32 checkpoint that does not fit becomes bfloat16, and others stay what they are", () => {
  const [, stored] = choose("llama-tied-f32", {});
  assertEquals(choose("llama-tied-f32", { memoryBytes: stored * 8 / 7 })[0], "auto");
  const [dtype, numBytes, text] = choose("llama-tied-f32", { memoryBytes: stored });
  assertEquals([dtype, numBytes], ["bfloat16", stored / 2]);
  assertStringIncludes(text, "weights in bfloat16, which is slower");
  for (const name of ["llama-bf16", "llama-q4"]) assertEquals(choose(name, { memoryBytes: 1 })[0], "auto");
});

Deno.test("flags that need float32 are refused beside another type, by their names", () => {
  const flags = { dtype: "auto", kvBits: "8", batchInvariant: true } as const;
  for (const dtype of ["auto", "float32"] as const) checkComputeFlags({ ...flags, dtype });
  checkComputeFlags({ dtype: "bfloat16", kvBits: "auto", batchInvariant: false });
  const both = "--kv-bits 8 needs a model that computes in float32; found --dtype bfloat16, expected auto or float32";
  assertThrows(() => checkComputeFlags({ ...flags, dtype: "bfloat16" }), UsageError, both);
  const exact = "--batch-invariant needs a model that computes in float32; found --dtype float16";
  assertThrows(() => checkComputeFlags({ ...flags, kvBits: "auto", dtype: "float16" }), UsageError, exact);
});

Deno.test("8 bits of keys and values are refused on a GPU, and where memory allows weights in half precision only", () => {
  assertEquals(choose("llama-tied-f32", { kvBits: "8" })[0], "auto");
  assertThrows(() => choose("llama-tied-f32", { kvBits: "8", isGpu: true }), UsageError, "--kv-bits 8 is for a CPU");
  assertThrows(() => choose("llama-tied-f32", { kvBits: "8", memoryBytes: 1 }), UsageError, "found: weights in bfloat16");
});
