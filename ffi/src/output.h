/* What one forward leaves for the sampler and the drafters. */
#ifndef ROWLOCK_OUTPUT_H
#define ROWLOCK_OUTPUT_H

#include "cpu/host_op.h"
#include "rowlock.h"

/* Waits for the evaluation. `logits` is float32 [rows, vocabulary], row-contiguous, valid until the next forward or write into `output`. */
int32_t output_logits(rl_output* output, const float** logits, int32_t* rows, int32_t* vocabulary);

/* Of the logits, which need not be there yet; 0 without any. */
int32_t output_vocabulary(const rl_output* output);

/* The draws of a step as the device's stream leaves them: arrays of all rows, one behind the other. */
typedef struct stream_draws {
  int32_t* tokens; /* that the rows go on with: of the vocabulary, whatever was drawn */
  rl_sampled* sampled;
  int32_t* top_tokens;
  float* top_logprobs; /* both [rows, RL_TOP_LOGPROBS_MAX] */
} stream_draws;

stream_draws draws_at(void* memory, int32_t num_rows);

/* Has `kernel` called on the device's stream once the logits are there: it makes the memory of a stream_draws from them, float32 [rows, vocabulary].
 * Does not wait. RL_ERR_ARGUMENT when there are no logits or not so many rows of them. */
int32_t output_start_draws(rl_output* output, host_kernel kernel, const void* params, size_t params_bytes, int32_t num_rows);

/* Waits for these draws; they stay until the next forward or write into `output`. */
int32_t output_finish_draws(rl_output* output, stream_draws* draws, int32_t* num_rows);

#endif
