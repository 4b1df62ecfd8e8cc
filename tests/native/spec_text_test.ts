import { assertEquals, assertThrows } from "@std/assert";
import { configText, cString, tensorsText } from "../../src/native/spec_text.ts";

const TENSOR = { name: "model.norm.weight", type: "F32", file: "/a b/ü.gguf", offset: 2 ** 40, byteLength: 128, shape: [4, 8] };

Deno.test("a config becomes key=value lines, with numbers that C reads back", () => {
  assertEquals(
    configText({ model_type: "llama", rope_theta: 1e21, eps: 1e-7, tied: true }),
    "model_type=llama\nrope_theta=1e+21\neps=1e-7\ntied=true\n",
  );
});

Deno.test("a tensor becomes one tab-separated line", () => {
  assertEquals(tensorsText([TENSOR]), "model.norm.weight\tF32\t/a b/ü.gguf\t1099511627776\t128\t4,8\n");
});

Deno.test("text that would break a line is refused by name", () => {
  assertThrows(() => configText({ "a=b": 1 }), TypeError, 'config key "a=b"');
  assertThrows(() => configText({ a: "x\nmodel_type=evil" }), TypeError, 'config value of "a"');
  assertThrows(() => tensorsText([{ ...TENSOR, name: "a\tb" }]), TypeError, "tensor name");
  assertThrows(() => tensorsText([{ ...TENSOR, file: "a\0b" }]), TypeError, "file of tensor");
});

Deno.test("offsets and shapes that are no whole numbers are refused", () => {
  assertThrows(() => tensorsText([{ ...TENSOR, offset: -1 }]), TypeError, "found -1, 128, 4, 8");
  assertThrows(() => tensorsText([{ ...TENSOR, shape: [1.5] }]), TypeError, "found");
  assertThrows(() => tensorsText([{ ...TENSOR, byteLength: 2 ** 60 }]), TypeError, "found");
});

Deno.test("a C string is UTF-8 and ends with NUL", () => {
  assertEquals([...cString("ü")], [0xc3, 0xbc, 0]);
});
