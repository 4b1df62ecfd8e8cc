/* The tokens of a row that filters have left so far. */
#ifndef ROWLOCK_SURVIVORS_H
#define ROWLOCK_SURVIVORS_H

#include <stdbool.h>

#include "row_logits.h"
#include "scratch.h"
#include "selection.h"

/* Either the whole row, or a list in the scratch of tokens in ascending order with their logits. */
typedef struct survivors {
  const float* logits;
  const int32_t* ids;      /* NULL for the whole row, where index i is token i and banned tokens have -inf */
  const float* block_best; /* of the whole row, else NULL */
  int32_t count;
  float best; /* largest logit */
  sampler_scratch* scratch;
} survivors;

survivors survivors_of_row(const row_logits* row, sampler_scratch* scratch);

/* Drops the tokens below `floor`, which must not be above the best. */
void keep_from(survivors* tokens, float floor);

/* Keeps the prefix that `cut` describes; `keys` are aligned with the tokens, which must be a list. `best` is not looked for. */
void keep_prefix(survivors* tokens, const float* keys, selection_cut cut);

/* Looks for `best` again, after the tokens that went may have included it. */
void find_best(survivors* tokens);

/* Sums of e = exp((logit - best) * inverse_temperature) over the survivors. */
typedef struct mass_sums {
  double mass;           /* of e */
  double mass_squared;   /* of e^2 */
  double mass_log;       /* of e (logit - best) */
} mass_sums;

/* Only the sum of e; `weights` (NULL, or room for count rounded up to BLOCK) receives every e. */
double mass_of(const survivors* tokens, float inverse_temperature, float* weights);

/* All three sums. */
mass_sums mass_sums_of(const survivors* tokens, float inverse_temperature);

/* Population standard deviation of the logits that are not -inf. */
double deviation_of(const survivors* tokens);

/* The smallest float32 that is not below `value`, so that a comparison in float32 decides as one in double would. */
float round_up(double value);

#endif
