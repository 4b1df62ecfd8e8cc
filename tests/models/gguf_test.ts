import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { loadModel } from "../../src/models/checkpoint.ts";
import { type GgufFile, readGguf } from "../../src/models/gguf.ts";
import { ModelFileError } from "../../src/models/model_file_error.ts";
import { modelTest } from "../test_model.ts";
import { type GgufField, type GgufSource, tinyLlama, writeGguf } from "./gguf_writer.ts";
import { TemporaryFolder } from "./temporary.ts";

function read(source: GgufSource, change: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array = (bytes) => bytes): GgufFile {
  using folder = new TemporaryFolder();
  return readGguf(folder.write("m.gguf", change(writeGguf(source).bytes)));
}

function refuse(source: GgufSource, message: string, change?: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array): void {
  assertThrows(() => read(source, change), ModelFileError, message);
}

const empty: GgufSource = { fields: [], tensors: [] };
const vector = { name: "t", typeId: 0, dims: [8], byteLength: 32 };

function withField(field: GgufField): GgufSource {
  return { fields: [["key", field]], tensors: [] };
}

Deno.test("Metadata of every kind and the tensor table are read", () => {
  const file = read({
    fields: [
      ["a", { type: "u32", value: 4294967295 }],
      ["b", { type: "f32", value: 0.5 }],
      ["c", { type: "u64", value: 2 ** 40 }],
      ["d", { type: "bool", value: 1 }],
      ["e", { type: "string", value: "\ufeffé" }],
      ["f", { type: "strings", value: ["x", ""] }],
      ["g", { type: "i32s", value: [1, 2] }],
    ],
    tensors: [{ name: "q", typeId: 2, dims: [64, 3], byteLength: 108 }, vector],
  });
  const { metadata } = file;
  assertEquals(["a", "b", "c"].map((key) => metadata.number(key)), [4294967295, 0.5, 2 ** 40]);
  assertEquals([metadata.boolean("d"), metadata.string("e")], [true, "\ufeffé"]);
  assertEquals([metadata.strings("f"), metadata.numbers("g"), metadata.get("h")], [["x", ""], [1, 2], undefined]);
  assertThrows(() => metadata.number("e"), ModelFileError, "e has to be a number, found");
  assertThrows(() => metadata.strings("g"), ModelFileError, "g has to be an array of strings, found [1,2]");
  assertEquals(file.tensors.map(({ name, type, shape, byteLength }) => ({ name, type, shape, byteLength })), [
    { name: "q", type: "Q4_0", shape: [3, 64], byteLength: 108 },
    { name: "t", type: "F32", shape: [8], byteLength: 32 },
  ]);
  assertEquals(file.tensors[1]!.offset - file.tensors[0]!.offset, 128);
});

Deno.test("Magic number, byte order and version are checked", () => {
  refuse({ ...empty, magic: 0x04034b50 }, 'starts with 0x04034b50 instead of "GGUF"');
  refuse({ ...empty, version: 1 }, "version 1; supported are 2 and 3");
  refuse({ ...empty, version: 0x03000000 }, "big-endian");
  assertEquals(read({ ...empty, version: 2 }).version, 2);
});

Deno.test("Counts and lengths that the file cannot hold are refused before memory is taken", () => {
  const huge = (at: number): (bytes: Uint8Array<ArrayBuffer>) => Uint8Array => (bytes) => {
    new DataView(bytes.buffer).setBigUint64(at, 2n ** 40n, true);
    return bytes;
  };
  refuse(empty, "the number of tensors is 1099511627776, at most 262144 is allowed", huge(8));
  refuse(empty, "the number of metadata pairs is 1099511627776, at most 65536 is allowed", huge(16));
  refuse(withField({ type: "u32", value: 1 }), "the length of metadata key 0 is 1099511627776, at most 65535 is allowed", huge(24));
  const stringLength = 24 + 8 + 3 + 4;
  refuse(
    withField({ type: "string", value: "abc" }),
    "the length of key is 1099511627776, at most 16777216 is allowed",
    huge(stringLength),
  );
  refuse(withField({ type: "i32s", value: [1] }), "the length of key is 1099511627776, at most 4194304 is allowed", huge(stringLength + 4));
  const claimed = (bytes: Uint8Array<ArrayBuffer>): Uint8Array => {
    new DataView(bytes.buffer).setBigUint64(stringLength + 4, 1n << 21n, true);
    return bytes;
  };
  refuse(withField({ type: "strings", value: ["x"] }), "2097152 elements of at least 8 bytes, but the file ends after", claimed);
});

Deno.test("Values outside their type are refused", () => {
  refuse(withField({ type: "bool", value: 2 }), "the boolean 2, allowed are 0 and 1");
  refuse(withField({ type: "u64", value: 2 ** 60 }), "at most 2^53 - 1 is allowed");
  refuse({ fields: [["k", { type: "u32", value: 1 }], ["k", { type: "u32", value: 1 }]], tensors: [] }, "metadata key k occurs twice");
  refuse({ fields: [["k\n", { type: "u32", value: 1 }]], tensors: [] }, "only printable ASCII is allowed");
  const typeAt = 24 + 8 + 3;
  refuse(withField({ type: "u32", value: 1 }), "value type 13, allowed are 0 to 12", (bytes) => bytes.with(typeAt, 13));
  refuse(withField({ type: "i32s", value: [1] }), "array of arrays", (bytes) => bytes.with(typeAt + 4, 9));
});

Deno.test("Tensors that lie outside the file, overlap, or do not fit their type are refused", () => {
  const tensors = (...list: GgufSource["tensors"]): GgufSource => ({ fields: [], tensors: list });
  refuse(tensors(vector, vector), "tensor t occurs twice");
  refuse(tensors(vector, { ...vector, name: "u", offset: 0 }), "tensors t and u overlap at byte");
  refuse(tensors({ ...vector, offset: 4 }), "has the offset 4, which is no multiple of 32");
  refuse(tensors({ ...vector, dims: [] }), "has 0 dimensions, allowed are 1 to 4");
  refuse(tensors({ ...vector, dims: [1, 1, 1, 1, 1] }), "has 5 dimensions, allowed are 1 to 4");
  refuse(tensors({ ...vector, dims: [0] }), "a dimension of 0");
  refuse(tensors({ ...vector, typeId: 4 }), "has the unknown type 4");
  refuse(tensors({ ...vector, typeId: 2, dims: [33] }), "rows of tensor t have 33 values, but Q4_0 needs a multiple of 32");
  refuse(tensors({ ...vector, dims: [9] }), "ends at byte");
  refuse(tensors({ ...vector, dims: [2 ** 31 - 1, 2 ** 31 - 1, 2 ** 31 - 1, 2 ** 31 - 1] }), "but the file has");
  refuse(
    { fields: [["general.alignment", { type: "u32", value: 24 }]], tensors: [vector] },
    "general.alignment is 24, allowed are powers of two",
  );
});

modelTest("The default model's header is read without reading its weights", (path) => {
  const file = readGguf(path);
  assertEquals([file.version, file.tensors.length, file.metadata.keys.length], [3, 272, 33]);
  const last = file.tensors.at(-1)!;
  assertEquals(last.offset + last.byteLength, Deno.statSync(path).size);
});

/** What loading gives, or "refused"; anything else that is thrown fails the test. */
function outcome(path: string): unknown {
  try {
    const { id: _, spec, tokenizer, stopIds, vocabSize } = loadModel(path);
    return { spec, vocabSize, stopIds, ids: tokenizer?.encode("abba") };
  } catch (error) {
    assert(error instanceof ModelFileError, `found ${error instanceof Error ? error.stack : error}`);
    return "refused";
  }
}

Deno.test("A GGUF header with flipped bytes, or cut anywhere, is loaded or refused, never a crash", () => {
  using folder = new TemporaryFolder();
  const { bytes, headerBytes } = writeGguf(tinyLlama());
  assert(outcome(folder.write("m.gguf", bytes)) !== "refused");
  let numRefused = 0;
  const flips = fc.array(fc.tuple(fc.nat(headerBytes - 1), fc.integer({ min: 1, max: 255 })), { minLength: 1, maxLength: 3 });
  fc.assert(
    fc.property(flips, (changes) => {
      const broken = bytes.slice();
      for (const [at, mask] of changes) broken[at]! ^= mask;
      if (outcome(folder.write("m.gguf", broken)) === "refused") numRefused++;
    }),
    { numRuns: 1500 },
  );
  assert(numRefused > 500, `only ${numRefused} were refused`);
  for (let length = 0; length < bytes.length; length += length < headerBytes ? 7 : 997) {
    assertEquals(outcome(folder.write("m.gguf", bytes.slice(0, length))), "refused", `cut at ${length}`);
  }
});

Deno.test("A length that lies takes no memory for what is not there", () => {
  using folder = new TemporaryFolder();
  const { bytes, headerBytes } = writeGguf(tinyLlama());
  const before = Deno.memoryUsage().rss;
  for (let at = 24; at + 8 <= headerBytes; at += 3) {
    const broken = bytes.slice();
    new DataView(broken.buffer).setBigUint64(at, 2n ** 31n, true);
    outcome(folder.write("m.gguf", broken));
  }
  assert(Deno.memoryUsage().rss - before < 256 * 2 ** 20);
});
