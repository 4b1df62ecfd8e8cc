import type { Mutant } from "./mutant.ts";

/** Faults of the CPU's kernels: wrong values, and values that depend on what else is computed. */
export const KERNEL_MUTANTS: readonly Mutant[] = [
  { find: "_mm512_srli_epi32(indices, 4)", replace: "_mm512_srli_epi32(indices, 3)", file: "ffi/src/cpu/product_kernels.h" },
  { find: "result[c] += p->bias[column + c];", replace: "result[c] += p->bias[c];", file: "ffi/src/cpu/product_kernels.h" },
  { find: "_mm512_shuffle_ps(low, high, 0x88)", replace: "_mm512_shuffle_ps(low, high, 0xDD)", file: "ffi/src/cpu/product_kernels.h" },
  { find: "g->values[16 + i] << 4", replace: "g->values[15 + i] << 4", file: "ffi/src/cpu/blocks.c" },
  { find: "*total = *total * rescale + sum;", replace: "*total = *total + sum;", file: "ffi/src/cpu/attention_kernels.h" },
  { find: "(NAME(ints))(key <= last)", replace: "(NAME(ints))(key < last)", file: "ffi/src/cpu/attention_kernels.h" },
  // Borders that follow the first key of a group: a token's bits would depend on the tokens beside it.
  { find: "int block = start / KEY_BLOCK * KEY_BLOCK;", replace: "int block = start;", file: "ffi/src/cpu/attention_kernels.h" },
  { find: "+ x[half + i] * sines[i];", replace: "- x[half + i] * sines[i];", file: "ffi/src/cpu/elementwise.c" },
].map((fault) => ({ ...fault, test: "ffi/tests/cpu_kernels_test.c" }));
