/* The sampler itself, for whoever has the logits. */
#ifndef ROWLOCK_SAMPLE_ROWS_H
#define ROWLOCK_SAMPLE_ROWS_H

#include <stdbool.h>

#include "validation.h"

/* One call of the sampler: checked configurations of all rows, and where the draws go. */
typedef struct rows_call {
  const float* logits; /* [rows, vocabulary] */
  int32_t num_rows, vocabulary;
  const rl_sampling* rows;
  sampling_arrays arrays;
  rl_sampled* sampled;
  int32_t* top_tokens;
  float* top_logprobs; /* both as in rl_sample, or NULL */
} rows_call;

/* Draws every row; false when there is no memory for it. */
bool sample_rows(const rows_call* call);

#endif
