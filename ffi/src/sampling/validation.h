/* Checks what a caller asks of the sampler before anything is written. */
#ifndef ROWLOCK_VALIDATION_H
#define ROWLOCK_VALIDATION_H

#include "rowlock.h"

/* The arrays that the rows of a call point into. */
typedef struct sampling_arrays {
  const rl_edit* edits;
  int32_t num_edits;
  const uint32_t* masks;
  int32_t num_masks;
} sampling_arrays;

/* RL_OK, or RL_ERR_ARGUMENT with the name, the value and the allowed range. */
int32_t validate_arrays(const sampling_arrays* arrays);

/* The same for one row, whose number is in the text. */
int32_t validate_sampling(const rl_sampling* sampling, int32_t row, int32_t vocabulary, const sampling_arrays* arrays);

#endif
