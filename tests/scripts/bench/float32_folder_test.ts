import { assertEquals, assertThrows } from "@std/assert";
import { readSafetensors } from "../../../src/models/safetensors.ts";
import { dequantize, separateRotaryHalves } from "../../../scripts/bench/peers/dequantize.ts";
import { writeSafetensors } from "../../../scripts/bench/peers/safetensors_file.ts";
import { completeTokenizerJson } from "../../../scripts/bench/peers/tokenizer_fields.ts";
import { TemporaryFolder } from "../../models/temporary.ts";

/** 0.5, 2 and -1 as 16-bit floats, little-endian. */
const [HALF, TWO, MINUS_ONE] = [[0x00, 0x38], [0x00, 0x40], [0x00, 0xbc]] as const;

/** Byte i holds i in its low half and 15 - i in its high one. */
const NIBBLES = Array.from({ length: 16 }, (_, i) => i | ((15 - i) << 4));

Deno.test("four-bit blocks are scaled, and shifted by 8 or by their own offset", () => {
  const low = Array.from({ length: 16 }, (_, i) => i);
  const steps = [...low, ...low.toReversed()];
  assertEquals([...dequantize("Q4_0", Uint8Array.from([...HALF, ...NIBBLES]))], steps.map((step) => 0.5 * (step - 8)));
  const two = Uint8Array.from([...HALF, ...MINUS_ONE, ...NIBBLES, ...TWO, ...HALF, ...NIBBLES]);
  assertEquals([...dequantize("Q4_1", two)], [...steps.map((step) => 0.5 * step - 1), ...steps.map((step) => 2 * step + 0.5)]);
});

Deno.test("eight-bit blocks are signed, and float types are read as they are", () => {
  const bytes = Array.from({ length: 32 }, (_, i) => 248 + i & 255);
  assertEquals([...dequantize("Q8_0", Uint8Array.from([...TWO, ...bytes]))], bytes.map((byte) => 2 * (byte > 127 ? byte - 256 : byte)));
  assertEquals([...dequantize("F16", Uint8Array.from([...HALF, ...MINUS_ONE]))], [0.5, -1]);
  assertEquals([...dequantize("F32", new Uint8Array(Float32Array.of(1.5, -2).buffer))], [1.5, -2]);
});

Deno.test("types that are not known and data that ends within a block are refused", () => {
  assertThrows(() => dequantize("Q6_K", new Uint8Array(210)), RangeError, "type Q6_K; known are F32, F16, Q4_0, Q4_1, Q8_0");
  assertThrows(() => dequantize("Q4_1", new Uint8Array(21)), RangeError, "21 bytes of Q4_1");
});

Deno.test("rotary pairs that lie side by side are separated into halves, head by head", () => {
  // Two heads of four rows of two values; a row's values are its number, twice.
  const rows = Float32Array.from([0, 1, 2, 3, 4, 5, 6, 7].flatMap((row) => [row, row]));
  assertEquals([...separateRotaryHalves(rows, 2, 2)], [0, 2, 1, 3, 4, 6, 5, 7].flatMap((row) => [row, row]));
  assertThrows(() => separateRotaryHalves(rows, 8, 2), RangeError, "even number of rows");
});

Deno.test("written tensors are read back where the header says", () => {
  using folder = new TemporaryFolder();
  const path = `${folder.path}/model.safetensors`;
  const values = { a: Float32Array.of(1, 2, 3, 4, 5, 6), b: Float32Array.of(-0.5) };
  writeSafetensors(path, [{ name: "a", shape: [2, 3], read: () => values.a }, { name: "b", shape: [1], read: () => values.b }]);
  const file = Deno.readFileSync(path);
  const read = readSafetensors(path).map(({ name, type, shape, offset, byteLength }) => {
    const data = new Float32Array(file.slice(offset, offset + byteLength).buffer);
    return [name, type, shape, [...data]];
  });
  assertEquals(read, [["a", "F32", [2, 3], [1, 2, 3, 4, 5, 6]], ["b", "F32", [1], [-0.5]]]);
  assertThrows(() => writeSafetensors(path, [{ name: "c", shape: [3], read: () => values.a }]), RangeError, "6 values");
});

Deno.test("tokenizer files get the fields that Rust insists on, in every part, and keep those they have", () => {
  const byteLevel = { type: "ByteLevel", add_prefix_space: true };
  const json = completeTokenizerJson({
    added_tokens: [{ id: 0, content: "<s>", special: true, normalized: false, lstrip: true }],
    pre_tokenizer: { type: "Sequence", pretokenizers: [{ type: "Digits", individual_digits: true }, byteLevel] },
    decoder: { type: "ByteLevel" },
    model: { type: "BPE" },
  });
  const token = { single_word: false, lstrip: true, rstrip: false, id: 0, content: "<s>", special: true, normalized: false };
  const whole = { type: "ByteLevel", trim_offsets: true, use_regex: true };
  assertEquals(json, {
    version: "1.0",
    truncation: null,
    padding: null,
    normalizer: null,
    post_processor: null,
    added_tokens: [token],
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [{ type: "Digits", individual_digits: true }, { ...whole, add_prefix_space: true }],
    },
    decoder: { ...whole, add_prefix_space: false },
    model: { type: "BPE" },
  });
});
