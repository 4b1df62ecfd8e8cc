/* What one forward leaves for the sampler and the drafters. */
#ifndef ROWLOCK_OUTPUT_H
#define ROWLOCK_OUTPUT_H

#include "rowlock.h"

/* Waits for the evaluation. `logits` is float32 [rows, vocabulary], row-contiguous, valid until the next forward or write into `output`. */
int32_t output_logits(rl_output* output, const float** logits, int32_t* rows, int32_t* vocabulary);

#endif
