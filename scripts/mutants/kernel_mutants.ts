import type { Mutant } from "./mutant.ts";

/** Faults of the CPU's kernels: wrong values, and values that depend on what else is computed. */
export const KERNEL_MUTANTS: readonly Mutant[] = [
  { find: "_mm512_srli_epi32(indices, 4)", replace: "_mm512_srli_epi32(indices, 3)", file: "ffi/src/cpu/product_units.h" },
  { find: "p->bias + column : NULL", replace: "p->bias : NULL", file: "ffi/src/cpu/product_kernels.h" },
  { find: "all[m][first + c] = sums[m][c];", replace: "all[m][c] = sums[m][c];", file: "ffi/src/cpu/product_kernels.h" },
  { find: "x + i * *ldx, (size_t)k", replace: "x + i * k, (size_t)k - 1", file: "ffi/src/cpu/product.c" },
  { find: "_mm512_shuffle_ps(low, high, 0x88)", replace: "_mm512_shuffle_ps(low, high, 0xDD)", file: "ffi/src/cpu/product_kernels.h" },
  { find: "g->values[16 + i] << 4", replace: "g->values[15 + i] << 4", file: "ffi/src/cpu/blocks.c" },
  { find: "*total = *total * rescale + sums[0];", replace: "*total = *total + sums[0];", file: "ffi/src/cpu/attention_kernels.h" },
  { find: "(NAME(ints))(key <= last)", replace: "(NAME(ints))(key < last)", file: "ffi/src/cpu/attention_kernels.h" },
  { find: "few->total[h] * rescale[0] + sums[0]", replace: "few->total[h] + sums[0]", file: "ffi/src/cpu/attention_few_kernels.h" },
  { find: "for (int i = 0; i < first; i++)", replace: "for (int i = 1; i < first; i++)", file: "ffi/src/cpu/attention_few_kernels.h" },
  { find: "(int8_t)lrintf(x[d] * inverse)", replace: "(int8_t)(x[d] * inverse)", file: "ffi/src/cpu/attention.c" },
  // Borders that follow the first key of a group: a token's bits would depend on the tokens beside it.
  { find: "int block = start / KEY_BLOCK * KEY_BLOCK;", replace: "int block = start;", file: "ffi/src/cpu/attention_kernels.h" },
  { find: "int block = start / KEY_BLOCK * KEY_BLOCK;", replace: "int block = start;", file: "ffi/src/cpu/attention_few_kernels.h" },
  { find: "+ x[half + i] * sines[i];", replace: "- x[half + i] * sines[i];", file: "ffi/src/cpu/elementwise.c" },
  {
    find: "write_cache_params of_keys = {p->attention.num_heads,",
    replace: "write_cache_params of_keys = {0,",
    file: "ffi/src/cpu/decoder_block.c",
  },
  { find: "  if (slots <= cache->reserved_slots &&", replace: "  if (slots < 0 &&", file: "ffi/src/sparse_cache.c" },
  {
    find: "else clear_tokens(cache, slot, capacity,",
    replace: "else clear_tokens(cache, slot, cache->lengths[slot],",
    file: "ffi/src/sparse_cache.c",
  },
  { find: "l->bias + column : NULL", replace: "l->bias : NULL", file: "ffi/src/cpu/decoder_block.c" },
].map((fault) => ({
  ...fault,
  test: fault.file.includes("decoder_block")
    ? "ffi/tests/cpu_decoder_block_test.c"
    : fault.file.includes("sparse_cache")
    ? "ffi/tests/cache_memory_test.c"
    : fault.file.includes("attention")
    ? "ffi/tests/cpu_attention_test.c"
    : "ffi/tests/cpu_kernels_test.c",
}));
