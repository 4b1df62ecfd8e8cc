/** `ffi/include/rowlock.h` as Deno sees it. `scripts/check_abi.ts` compares the two. Parameters carry their C type and name. */

import { PAGE_SYMBOLS } from "./page_symbols.ts";
import { SAMPLING_SYMBOLS } from "./sampling_symbols.ts";

/** Must equal the library's `RL_ABI_VERSION`. */
export const ABI_VERSION = 7;

/** Bytes of the structs that cross the border. */
export const STRUCT_BYTES = { rl_row: 20, rl_draft_row: 20, rl_sampling: 64, rl_edit: 16, rl_sampled: 16 } as const;

/** Alternatives that `rl_sample` leaves room for in each row: `RL_TOP_LOGPROBS_MAX`. */
export const TOP_LOGPROBS_MAX = 20;

export const SYMBOLS = {
  rl_abi_version: { parameters: [], result: "i32" },
  rl_last_error: {
    parameters: [
      "buffer", // char* text
      "i32", // int32_t capacity
    ],
    result: "i32",
  },
  rl_build_info: {
    parameters: [
      "buffer", // char* text
      "i32", // int32_t capacity
    ],
    result: "i32",
  },
  rl_memory: {
    parameters: [
      "buffer", // uint64_t* out
    ],
    result: "i32",
  },
  rl_memory_limit: {
    parameters: [
      "u64", // uint64_t cache_bytes
    ],
    result: "i32",
  },
  rl_cgroup_memory: {
    parameters: [
      "buffer", // uint64_t* out
    ],
    result: "i32",
  },
  rl_batch_invariant: {
    parameters: [
      "i32", // int32_t is_on
    ],
    result: "i32",
  },
  rl_model_load: {
    parameters: [
      "buffer", // const char* config
      "buffer", // const char* tensors
      "buffer", // rl_model** out
    ],
    result: "i32",
  },
  rl_model_free: {
    parameters: [
      "pointer", // rl_model* model
    ],
    result: "i32",
  },
  rl_model_info: {
    parameters: [
      "pointer", // const rl_model* model
      "buffer", // int64_t* out
    ],
    result: "i32",
  },
  rl_cache_new: {
    parameters: [
      "pointer", // rl_model* model
      "buffer", // rl_cache** out
    ],
    result: "i32",
  },
  rl_cache_free: {
    parameters: [
      "pointer", // rl_cache* cache
    ],
    result: "i32",
  },
  rl_cache_reserve: {
    parameters: [
      "pointer", // rl_cache* cache
      "i32", // int32_t slots
      "i32", // int32_t capacity
    ],
    result: "i32",
  },
  rl_cache_resize: {
    parameters: [
      "pointer", // rl_cache* cache
      "i32", // int32_t slots
      "i32", // int32_t capacity
    ],
    result: "i32",
  },
  rl_cache_move: {
    parameters: [
      "pointer", // rl_cache* cache
      "i32", // int32_t from
      "i32", // int32_t to
      "i32", // int32_t length
    ],
    result: "i32",
  },
  rl_cache_clear: {
    parameters: [
      "pointer", // rl_cache* cache
      "i32", // int32_t slot
    ],
    result: "i32",
  },
  rl_cache_release: {
    parameters: [
      "pointer", // rl_cache* cache
      "i32", // int32_t slot
    ],
    result: "i32",
  },
  rl_cache_keep: {
    parameters: [
      "pointer", // rl_cache* cache
      "buffer", // const int32_t* slots
      "buffer", // const int32_t* kept
      "i32", // int32_t num_rows
    ],
    result: "i32",
  },
  rl_cache_info: {
    parameters: [
      "pointer", // const rl_cache* cache
      "buffer", // int64_t* out
    ],
    result: "i32",
  },
  ...PAGE_SYMBOLS,
  rl_output_new: {
    parameters: [
      "buffer", // rl_output** out
    ],
    result: "i32",
  },
  rl_output_free: {
    parameters: [
      "pointer", // rl_output* output
    ],
    result: "i32",
  },
  rl_forward: {
    parameters: [
      "pointer", // rl_model* model
      "pointer", // rl_cache* cache
      "pointer", // rl_output* output
      "buffer", // const int32_t* tokens
      "i32", // int32_t num_tokens
      "buffer", // const rl_row* rows
      "i32", // int32_t num_rows
    ],
    result: "i32",
  },
  rl_forward_drawn: {
    parameters: [
      "pointer", // rl_model* model
      "pointer", // rl_cache* cache
      "pointer", // rl_output* output
      "pointer", // rl_output* drawn
      "buffer", // const rl_row* rows
      "i32", // int32_t num_rows
    ],
    result: "i32",
  },
  rl_output_clear: {
    parameters: [
      "pointer", // rl_output* output
    ],
    result: "i32",
  },
  rl_output_read: {
    parameters: [
      "pointer", // rl_output* output
      "buffer", // float* logits
      "i64", // int64_t capacity
    ],
    result: "i32",
  },
  rl_output_write: {
    parameters: [
      "pointer", // rl_output* output
      "buffer", // const void* logits
      "i32", // int32_t rows
      "i32", // int32_t vocabulary
      "i32", // int32_t dtype
    ],
    result: "i32",
  },
  rl_model_capture: {
    parameters: [
      "pointer", // rl_model* model
      "i32", // int32_t kind
      "buffer", // const int32_t* layers
      "i32", // int32_t num_layers
    ],
    result: "i32",
  },
  rl_output_read_features: {
    parameters: [
      "pointer", // rl_output* output
      "buffer", // float* features
      "i64", // int64_t capacity
    ],
    result: "i32",
  },
  rl_drafter_load: {
    parameters: [
      "buffer", // const char* config
      "buffer", // const char* tensors
      "pointer", // rl_model* model
      "buffer", // rl_drafter** out
    ],
    result: "i32",
  },
  rl_drafter_free: {
    parameters: [
      "pointer", // rl_drafter* drafter
    ],
    result: "i32",
  },
  rl_drafter_info: {
    parameters: [
      "pointer", // const rl_drafter* drafter
      "buffer", // int64_t* out
    ],
    result: "i32",
  },
  rl_drafter_cache_new: {
    parameters: [
      "pointer", // rl_drafter* drafter
      "buffer", // rl_cache** out
    ],
    result: "i32",
  },
  rl_draft: {
    parameters: [
      "pointer", // rl_drafter* drafter
      "pointer", // rl_cache* cache
      "pointer", // rl_output* output
      "buffer", // const int32_t* tokens
      "i32", // int32_t num_tokens
      "buffer", // const rl_draft_row* rows
      "i32", // int32_t num_rows
      "pointer", // rl_output* source
      "buffer", // const int32_t* source_rows
      "i32", // int32_t num_source_rows
    ],
    result: "i32",
  },
  ...SAMPLING_SYMBOLS,
} as const satisfies Deno.ForeignLibraryInterface;
