/** The part of `symbols.ts` that is about pages. */
export const PAGE_SYMBOLS = {
  rl_page_save: {
    parameters: [
      "pointer", // rl_cache* cache
      "i32", // int32_t slot
      "i32", // int32_t start
      "i32", // int32_t length
      "i32", // int32_t flags
      "buffer", // rl_page** out
    ],
    result: "i32",
  },
  rl_page_load: {
    parameters: [
      "pointer", // rl_cache* cache
      "pointer", // const rl_page* page
      "i32", // int32_t slot
      "i32", // int32_t start
    ],
    result: "i32",
  },
  rl_page_bytes: {
    parameters: [
      "pointer", // const rl_page* page
      "buffer", // int64_t* out
    ],
    result: "i32",
  },
  rl_page_export: {
    parameters: [
      "pointer", // const rl_page* page
      "buffer", // uint8_t* bytes
      "i64", // int64_t capacity
    ],
    result: "i32",
  },
  rl_page_import: {
    parameters: [
      "pointer", // const rl_cache* cache
      "i32", // int32_t length
      "i32", // int32_t flags
      "buffer", // const uint8_t* bytes
      "i64", // int64_t num_bytes
      "buffer", // rl_page** out
    ],
    result: "i32",
  },
  rl_page_free: {
    parameters: [
      "pointer", // rl_page* page
    ],
    result: "i32",
  },
} as const satisfies Deno.ForeignLibraryInterface;
