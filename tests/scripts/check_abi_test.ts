import { assertEquals } from "@std/assert";
import { parseHeader } from "../../scripts/abi/c_header.ts";
import { compareAbi, parameterComments, readAbi } from "../../scripts/check_abi.ts";

const HEADER_PATH = new URL("../../ffi/include/rowlock.h", import.meta.url);

Deno.test("the header of this checkout and the table of symbols agree", async () => {
  const { header, bindings } = await readAbi();
  assertEquals(compareAbi(header, bindings), []);
});

Deno.test("each kind of difference is found and named", async () => {
  const { bindings } = await readAbi();
  const text = await Deno.readTextFile(HEADER_PATH);
  const cases: [string, string, string][] = [
    [
      `#define RL_ABI_VERSION ${bindings.abiVersion}`,
      "#define RL_ABI_VERSION 77",
      `RL_ABI_VERSION is 77 in the header, ${bindings.abiVersion} in the table`,
    ],
    ["RL_TOP_LOGPROBS_MAX = 20", "RL_TOP_LOGPROBS_MAX = 21", "RL_TOP_LOGPROBS_MAX is 21 in the header, 20 in the table"],
    ["RL_API int32_t rl_memory(uint64_t* out);", "", "rl_memory is in the table but not in the header"],
    ["RL_API int32_t rl_memory(", "RL_API int64_t rl_memory(", "rl_memory returns i64 in the header, i32 in the table"],
    ["rl_memory_limit(uint64_t", "rl_memory_limit(uint32_t", "rl_memory_limit takes u32 in the header, u64 in the table"],
    ["int32_t capacity);\n\n/* Moves", "int32_t room);\n\n/* Moves", "rl_cache_resize's parameters are"],
    ["  int32_t slot; ", "  int64_t slot; ", "bytes of rl_row is 24 in the header, 20 in the table"],
  ];
  for (const [from, to, message] of cases) {
    assertEquals(text.includes(from), true, `the header still has ${JSON.stringify(from)}`);
    const differences = compareAbi(parseHeader(text.replace(from, to)), bindings);
    assertEquals(differences.some((difference) => difference.startsWith(message)), true, `${message}: ${differences.join("; ")}`);
  }
});

Deno.test("a symbol that only the header has is found", () => {
  const header = parseHeader("#define RL_ABI_VERSION 1\nenum { RL_TOP_LOGPROBS_MAX = 20 };\nRL_API int32_t rl_new(float* out);");
  const bindings = { abiVersion: 1, topLogprobsMax: 20, structBytes: {}, symbols: {}, comments: new Map() };
  assertEquals(compareAbi(header, bindings), ["rl_new is in the header but not in the table"]);
});

Deno.test("struct sizes count padding before a wide field and at the end", () => {
  const header = parseHeader("typedef struct a { int32_t x; uint64_t y; uint8_t z, w; } a;\ntypedef struct b b;");
  assertEquals([...header.structBytes], [["a", 24]]);
  assertEquals([...header.opaqueTypes], ["b"]);
});

Deno.test("comments of parameter lines are read in order", () => {
  const source =
    'export const SYMBOLS = {\n  rl_x: {\n    parameters: [\n      "i32", // int32_t a\n      "buffer", // float* b\n    ],\n  },\n};\n';
  assertEquals([...parameterComments(source)], [["rl_x", ["int32_t a", "float* b"]]]);
});
