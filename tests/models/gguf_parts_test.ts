import { assertEquals, assertThrows } from "@std/assert";
import { loadModel } from "../../src/models/checkpoint.ts";
import { ggufParts } from "../../src/models/gguf_parts.ts";
import { ModelFileError } from "../../src/models/model_file_error.ts";
import { type GgufField, type GgufTensorSource, tinyLlama, writeGguf } from "./gguf_writer.ts";
import { TemporaryFolder } from "./temporary.ts";

interface Part {
  readonly number: number;
  readonly tensors: readonly GgufTensorSource[];
  readonly numParts?: number;
  readonly numTensors?: number;
}

function partName(number: number, numParts = 3): string {
  return `tiny.Q8_0-${String(number + 1).padStart(5, "0")}-of-${String(numParts).padStart(5, "0")}.gguf`;
}

function writePart(folder: TemporaryFolder, { number, tensors, numParts = 3, numTensors }: Part, name = partName(number)): string {
  const u32 = (value: number): GgufField => ({ type: "u32", value });
  const fields: (readonly [string, GgufField])[] = [["split.no", u32(number)], ["split.count", u32(numParts)]];
  if (numTensors !== undefined) fields.push(["split.tensors.count", u32(numTensors)]);
  return folder.write(name, writeGguf({ fields: number === 0 ? [...tinyLlama().fields, ...fields] : fields, tensors }).bytes);
}

/** A llama whose first part has no tensors, as some splitters write it. */
function writeParts(folder: TemporaryFolder): string[] {
  const { tensors } = tinyLlama();
  return [[], tensors.slice(0, 5), tensors.slice(5)].map((part, number) =>
    writePart(folder, { number, tensors: part, ...(number === 0 ? { numTensors: tensors.length } : {}) })
  );
}

function refuse(path: string, message: string): void {
  assertThrows(() => loadModel(path), ModelFileError, message);
}

Deno.test("Whichever part of a GGUF model is named, all are read", () => {
  using folder = new TemporaryFolder();
  const paths = writeParts(folder);
  const whole = folder.write("whole.gguf", writeGguf(tinyLlama()).bytes);
  const names = loadModel(whole).spec.tensors.map(({ name }) => name);
  for (const path of paths) {
    const model = loadModel(path);
    assertEquals([model.id, model.maxContext, model.tokenizer?.encode("abba")], ["tiny.Q8_0", 128, [5, 4, 3]]);
    assertEquals(model.spec.tensors.map(({ name }) => name), names);
    assertEquals(new Set(model.spec.tensors.map(({ file }) => file)), new Set(paths.slice(1)));
  }
});

Deno.test("A part that is missing, or is another one than its name says, is named", () => {
  using folder = new TemporaryFolder();
  const [first, second, third] = writeParts(folder) as [string, string, string];
  const bytes = Deno.readFileSync(second);
  Deno.removeSync(second);
  refuse(third, `Part 2 of 3 cannot be used: Cannot open ${second}`);
  Deno.writeFileSync(second, Deno.readFileSync(third));
  refuse(first, `Cannot use ${second}: it says to be part 2 (from 0) of 3, not 1 of 3`);
  Deno.writeFileSync(second, bytes.subarray(0, 40));
  refuse(first, `Part 2 of 3 cannot be used: Cannot read ${second}`);
  refuse(folder.write("renamed.gguf", Deno.readFileSync(first)), "it is one of 3 parts, and its name does not end in -00001-of-00003.gguf");
});

Deno.test("Parts that do not make up one model are refused", () => {
  using folder = new TemporaryFolder();
  const { tensors } = tinyLlama();
  const [first] = writeParts(folder);
  writePart(folder, { number: 1, tensors: tensors.slice(0, 6) });
  refuse(first!, "tensor blk.0.attn_output.weight is in two of its parts");
  writePart(folder, { number: 1, tensors: tensors.slice(0, 4) });
  refuse(first!, `its parts have ${tensors.length - 1} tensors, the first one says ${tensors.length}`);
});

Deno.test("Names that only look like a part's stand for one file", () => {
  for (const name of ["a.gguf", "a-00001-of-00001.gguf", "a-1-of-2.gguf", "a-00001-of-99999.gguf", "a-00001-of-00002.bin"]) {
    assertEquals(ggufParts(`x/${name}`), null);
  }
  assertEquals(ggufParts("x/a-00002-of-00002.gguf"), ["x/a-00001-of-00002.gguf", "x/a-00002-of-00002.gguf"]);
});
