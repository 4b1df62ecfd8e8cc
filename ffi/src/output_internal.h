/* How a forward hands its results to an output. */
#ifndef ROWLOCK_OUTPUT_INTERNAL_H
#define ROWLOCK_OUTPUT_INTERNAL_H

#include <stdbool.h>

#include "mlx/c/mlx.h"
#include "output.h"

/* Takes ownership of `logits` [rows, vocabulary] (ctx NULL: no rows were asked for). Not valid: the forward failed. */
void output_set(rl_output* output, mlx_array logits, bool is_valid);

#endif
