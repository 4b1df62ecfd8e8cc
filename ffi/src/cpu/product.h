/* y = x · weightᵀ on a CPU, with the weights as they are stored: half types and integers become float32 in registers, so that a step reads
 * a fraction of the bytes, and the result has the same bits as a product with the dequantized matrix.
 *
 * An output's terms are added in an order that depends on K alone, never on how many rows or columns share the call: a row's result is the
 * same bits in every batch. */
#ifndef ROWLOCK_PRODUCT_H
#define ROWLOCK_PRODUCT_H

#include <stdbool.h>

#include "blocks.h"

typedef enum weight_type { WEIGHTS_F32, WEIGHTS_F16, WEIGHTS_BF16, WEIGHTS_BLOCKS_4, WEIGHTS_BLOCKS_8, WEIGHTS_BLOCKS_8_HALVES } weight_type;

/* n rows of k values. */
typedef struct product_weights {
  weight_type type;
  const void* data;
  int n, k;
  bool has_bias;    /* for the caller */
  size_t row_bytes; /* from one row to the next; 0: they follow each other */
} product_weights;

/* The blocks that such weights are made of; BLOCKS_NONE for dense ones. */
static inline block_kind weight_blocks(weight_type type) {
  return type < WEIGHTS_BLOCKS_4 ? BLOCKS_NONE : (block_kind)(type - WEIGHTS_BLOCKS_4 + BLOCKS_4);
}

size_t weight_row_bytes(weight_type type, int k);

/* y[m, n] (rows `ldy` apart) from x[m, k] (rows `ldx` apart); adds `bias` [n] unless it is NULL. Shared among the workers. */
void product(const product_weights* w, const float* x, int64_t ldx, int m, const float* bias, float* y, int64_t ldy);

/* The same added to `residual`, whose rows lie `ld_residual` apart and may be those of y. */
void product_onto(const product_weights* w, const float* x, int64_t ldx, int m, const float* bias, const float* residual, int64_t ld_residual,
                  float* y, int64_t ldy);

/* Row `row` as float32. */
void product_weights_row(const product_weights* w, int64_t row, float* values);

#endif
