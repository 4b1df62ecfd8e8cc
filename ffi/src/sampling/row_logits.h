/* One row of logits as the sampler looks at it: bias, mask and penalties applied, every value a number or -inf. */
#ifndef ROWLOCK_ROW_LOGITS_H
#define ROWLOCK_ROW_LOGITS_H

#include "rowlock.h"
#include "scratch.h"

typedef struct row_logits {
  const float* values;     /* no NaN, no +inf */
  const float* block_best; /* largest value of each BLOCK of tokens */
  int32_t vocabulary;
  int32_t num_finite; /* tokens above -inf */
  float best;         /* -INFINITY when the row is broken */
} row_logits;

/* Points at `logits` where nothing changes them, else at a copy in the scratch. `mask` may be NULL. */
row_logits row_logits_of(const float* logits, int32_t vocabulary, const uint32_t* mask, const rl_edit* edits, int32_t num_edits,
                         sampler_scratch* scratch);

/* The token of the largest logit, lowest id first; -1 when no logit is a number above -inf. Reads each logit once. */
int32_t best_token_of(const float* logits, int32_t vocabulary);

/* A block's values; a partial one is copied into `padded` and filled with -inf, so that loops over blocks have no tail. */
static inline const float* block_of(const float* values, int32_t begin, int32_t count, float padded[BLOCK]);

#include <math.h>
#include <string.h>

static inline const float* block_of(const float* values, int32_t begin, int32_t count, float padded[BLOCK]) {
  int32_t num_left = count - begin;
  if (num_left >= BLOCK) return values + begin;
  memcpy(padded, values + begin, (size_t)num_left * sizeof *values);
  for (int32_t i = num_left; i < BLOCK; i++) padded[i] = -INFINITY;
  return padded;
}

#endif
