import { assertEquals } from "@std/assert";
import { environmentWarnings } from "../../src/cli/check_environment.ts";

function warnings(environment: Record<string, string>): string[] {
  return environmentWarnings((name) => environment[name]);
}

Deno.test("values that the native library knows, and variables that are not set, are nothing to tell", () => {
  assertEquals(warnings({}), []);
  assertEquals(warnings({ ROWLOCK_THREADS: "", ROWLOCK_CPU_KERNELS: "", ROWLOCK_CPU_ISA: "" }), []);
  assertEquals(warnings({ ROWLOCK_THREADS: "64", ROWLOCK_CPU_KERNELS: "mlx", ROWLOCK_CPU_ISA: "avx2" }), []);
});

Deno.test("other values are told by name, with what is expected and what becomes of them", () => {
  assertEquals(warnings({ ROWLOCK_CPU_KERNELS: "own", ROWLOCK_CPU_ISA: "AVX2" }), [
    'ROWLOCK_CPU_KERNELS is "own", expected mlx; it counts as not set',
    'ROWLOCK_CPU_ISA is "AVX2", expected avx2; it counts as not set',
  ]);
  for (const value of ["0", "-1", "2.5", "all"]) {
    assertEquals(warnings({ ROWLOCK_THREADS: value }), [
      `ROWLOCK_THREADS is "${value}", expected a whole number from 1 to 64; it counts as not set`,
    ]);
  }
  assertEquals(warnings({ ROWLOCK_THREADS: "65" }), ['ROWLOCK_THREADS is "65", expected a whole number from 1 to 64; 64 are used']);
});
