/* How a forward hands its results to an output. */
#ifndef ROWLOCK_OUTPUT_INTERNAL_H
#define ROWLOCK_OUTPUT_INTERNAL_H

#include <stdbool.h>

#include "mlx/c/mlx.h"
#include "output.h"
#include "scope.h"

/* Takes ownership of `logits` [rows, vocabulary] (ctx NULL: no rows were asked for). Not valid: the forward failed. */
void output_set(rl_output* output, mlx_array logits, bool is_valid);

/* Takes ownership of `features` [tokens, width] (ctx NULL: none were asked for); `maker` is the model or drafter that they come from. */
void output_set_features(rl_output* output, mlx_array features, bool is_valid, const void* maker);

/* The features, ctx NULL when there are none, and who made them. The output keeps them. */
mlx_array output_features(const rl_output* output, const void** maker);

/* Draws that are on their way (output_start_draws): how many, 0 without any, and their tokens, int32 [rows]. */
int32_t output_num_drawn(const rl_output* output);
mlx_array output_drawn_tokens(scope* s, const rl_output* output);

#endif
