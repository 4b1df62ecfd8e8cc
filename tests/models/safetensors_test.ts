import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { ModelFileError } from "../../src/models/model_file_error.ts";
import { readSafetensors } from "../../src/models/safetensors.ts";
import { TemporaryFolder } from "./temporary.ts";

function file(header: unknown, dataBytes: number, headerBytes?: bigint): Uint8Array {
  const text = new TextEncoder().encode(typeof header === "string" ? header : JSON.stringify(header));
  const bytes = new Uint8Array(8 + text.length + dataBytes);
  new DataView(bytes.buffer).setBigUint64(0, headerBytes ?? BigInt(text.length), true);
  bytes.set(text, 8);
  return bytes;
}

function read(bytes: Uint8Array): ReturnType<typeof readSafetensors> {
  using folder = new TemporaryFolder();
  return readSafetensors(folder.write("model.safetensors", bytes));
}

const a = { dtype: "F32", shape: [2, 2], data_offsets: [0, 16] };
const b = { dtype: "BF16", shape: [3], data_offsets: [16, 22] };

Deno.test("Tensors lie behind the header, and metadata is no tensor", () => {
  const header = { __metadata__: { format: "pt" }, a, b, empty: { dtype: "I64", shape: [0], data_offsets: [22, 22] } };
  const headerBytes = JSON.stringify(header).length;
  const tensors = read(file(header, 22)).map((
    { name, type, shape, offset, byteLength },
  ) => [name, type, shape, offset - headerBytes, byteLength]);
  assertEquals(tensors, [["a", "F32", [2, 2], 8, 16], ["b", "BF16", [3], 24, 6], ["empty", "I64", [0], 30, 0]]);
});

Deno.test("Headers that lie are refused with what was found", () => {
  const refuse = (header: unknown, dataBytes: number, message: string, headerBytes?: bigint): void => {
    assertThrows(() => read(file(header, dataBytes, headerBytes)), ModelFileError, message);
  };
  refuse({}, 0, "at most 2^53 - 1", 2n ** 60n);
  refuse({}, 0, "at most 33554432 is allowed", 2n ** 30n);
  refuse({}, 0, "the header needs 1000 bytes at byte 8", 1000n);
  refuse("[]", 0, 'starts with "[]" instead of "{"');
  refuse("{,}", 0, "the header is no JSON");
  refuse({ a: { ...a, dtype: "F33" } }, 16, 'has the dtype "F33"');
  refuse({ a: { ...a, shape: [2, -2] } }, 16, "has the shape [2,-2]");
  refuse({ a: { ...a, shape: [2.5] } }, 16, "has the shape [2.5]");
  refuse({ a: { ...a, data_offsets: [16, 0] } }, 16, "has the data_offsets [16,0]");
  refuse({ a: { ...a, data_offsets: [0] } }, 16, "has the data_offsets [0]");
  refuse({ a: { ...a, shape: [2, 3] } }, 16, "has 16 bytes, but F32 [2,3] needs 24");
  refuse({ a: { ...a, shape: [2 ** 40, 2 ** 40] } }, 16, "has 16 bytes");
  refuse({ a }, 15, "ends at byte");
  refuse({ a, b: { ...b, data_offsets: [14, 20] } }, 20, "tensors a and b overlap");
  refuse({ a, b: { ...b, data_offsets: [18, 24] } }, 24, "have 22 bytes together, but 24 bytes follow");
  refuse({ a }, 20, "have 16 bytes together, but 20 bytes follow");
  refuse({ "a\tb": a }, 16, "only printable ASCII");
  refuse({ a: null }, 0, "has the dtype undefined");
});

Deno.test("Deep nesting in a header is refused, not followed", () => {
  assertThrows(() => read(file(`{"a":${"[".repeat(100_000)}`, 0)), ModelFileError, "the header is no JSON");
});

Deno.test("A header with flipped bytes, or cut anywhere, is read or refused, never a crash", () => {
  using folder = new TemporaryFolder();
  const bytes = file({ a, b }, 22);
  const headerEnd = bytes.length - 22;
  const outcome = (content: Uint8Array): "read" | "refused" => {
    try {
      readSafetensors(folder.write("model.safetensors", content));
      return "read";
    } catch (error) {
      assert(error instanceof ModelFileError, `found ${error instanceof Error ? error.stack : error}`);
      return "refused";
    }
  };
  assertEquals(outcome(bytes), "read");
  let numRefused = 0;
  fc.assert(
    fc.property(fc.nat(headerEnd - 1), fc.integer({ min: 1, max: 255 }), (at, mask) => {
      if (outcome(bytes.with(at, bytes[at]! ^ mask)) === "refused") numRefused++;
    }),
    { numRuns: 1000 },
  );
  assert(numRefused > 500, `only ${numRefused} were refused`);
  for (let length = 0; length < bytes.length; length++) assertEquals(outcome(bytes.slice(0, length)), "refused", `cut at ${length}`);
});
