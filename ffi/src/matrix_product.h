/* What a loaded matrix does in a graph, in whatever format it is held. */
#ifndef ROWLOCK_MATRIX_PRODUCT_H
#define ROWLOCK_MATRIX_PRODUCT_H

#include "cpu/product.h"
#include "forward.h"
#include "weights.h"

/* x · matrixᵀ + bias, [tokens, in] to [tokens, out], in x's type; `bias` [out] may have ctx NULL. */
mlx_array matrix_product(scope* s, const matrix* m, mlx_array x, mlx_array bias);

/* Whether a product of float32 with the matrix has a kernel of our own, and the matrix as that takes it, but for its data. */
bool matrix_is_host(scope* s, const matrix* m);
product_weights matrix_host_weights(const matrix* m);

/* The rows at `indices` as numbers: [tokens, in]. */
mlx_array matrix_rows(scope* s, const matrix* m, mlx_array indices, mlx_dtype dtype);

/* The same products with a matrix of a stack: x is [tokens, 1 or choices, in], `experts` [tokens, choices], the result
 * [tokens, choices, out]. Every token's products are its own, so that they do not depend on which tokens share the step. */
mlx_array matrix_product_of_experts(scope* s, const matrix* m, mlx_array x, mlx_array experts, bool is_gpu);

#endif
