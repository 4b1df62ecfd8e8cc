/** The part of `symbols.ts` that is about sampling. */
export const SAMPLING_SYMBOLS = {
  rl_sample: {
    parameters: [
      "pointer", // rl_output* output
      "buffer", // const rl_sampling* rows
      "i32", // int32_t num_rows
      "buffer", // const rl_edit* edits
      "i32", // int32_t num_edits
      "buffer", // const uint32_t* masks
      "i32", // int32_t num_masks
      "buffer", // rl_sampled* sampled
      "buffer", // int32_t* top_tokens
      "buffer", // float* top_logprobs
    ],
    result: "i32",
  },
  rl_sample_start: {
    parameters: [
      "pointer", // rl_output* output
      "buffer", // const rl_sampling* rows
      "i32", // int32_t num_rows
      "buffer", // const rl_edit* edits
      "i32", // int32_t num_edits
      "buffer", // const uint32_t* masks
      "i32", // int32_t num_masks
    ],
    result: "i32",
  },
  rl_sample_finish: {
    parameters: [
      "pointer", // rl_output* output
      "buffer", // rl_sampled* sampled
      "i32", // int32_t num_rows
      "buffer", // int32_t* top_tokens
      "buffer", // float* top_logprobs
    ],
    result: "i32",
  },
  rl_sample_distribution: {
    parameters: [
      "pointer", // rl_output* output
      "i32", // int32_t row
      "buffer", // const rl_sampling* sampling
      "buffer", // const rl_edit* edits
      "i32", // int32_t num_edits
      "buffer", // const uint32_t* masks
      "i32", // int32_t num_masks
      "buffer", // uint8_t* kept
      "buffer", // float* probabilities
    ],
    result: "i32",
  },
  rl_random_words: {
    parameters: [
      "u64", // uint64_t seed
      "u32", // uint32_t position
      "buffer", // uint32_t* words
      "i32", // int32_t count
    ],
    result: "i32",
  },
} as const satisfies Deno.ForeignLibraryInterface;
