/* MLX's operations as functions of a scope: the result is a temporary of the scope, shapes are broadcast as in MLX. */
#ifndef ROWLOCK_OPS_H
#define ROWLOCK_OPS_H

#include "scope.h"

/* ---- new arrays ---- */
mlx_array op_scalar(scope* s, float value, mlx_dtype dtype);
mlx_array op_ints(scope* s, const int32_t* values, int count); /* int32 [count], copied */
mlx_array op_floats(scope* s, const float* values, int count); /* float32 [count], copied */
mlx_array op_zeros(scope* s, const int* shape, int num_dims, mlx_dtype dtype);
mlx_array op_cast(scope* s, mlx_array x, mlx_dtype dtype);

/* ---- arithmetic ---- */
mlx_array op_add(scope* s, mlx_array a, mlx_array b);
mlx_array op_subtract(scope* s, mlx_array a, mlx_array b);
mlx_array op_multiply(scope* s, mlx_array a, mlx_array b);
mlx_array op_divide(scope* s, mlx_array a, mlx_array b);
mlx_array op_matmul(scope* s, mlx_array a, mlx_array b);
mlx_array op_sigmoid(scope* s, mlx_array x);
mlx_array op_silu(scope* s, mlx_array x);
mlx_array op_exp(scope* s, mlx_array x);
mlx_array op_negative(scope* s, mlx_array x);
mlx_array op_softplus(scope* s, mlx_array x);
mlx_array op_where(scope* s, mlx_array condition, mlx_array a, mlx_array b);
mlx_array op_cumulative_sum(scope* s, mlx_array x, int axis);
/* Inverses of lower triangular float32 matrices [..., n, n], always computed on the CPU. */
mlx_array op_triangular_inverse(scope* s, mlx_array x);
mlx_array op_tanh(scope* s, mlx_array x);
mlx_array op_softmax(scope* s, mlx_array x); /* over the last axis, sums in float32 */
mlx_array op_sum(scope* s, mlx_array x, int axis, bool keep_dims);

/* ---- shape ---- */
mlx_array op_reshape(scope* s, mlx_array x, const int* shape, int num_dims);
mlx_array op_transpose(scope* s, mlx_array x, const int* axes, int num_axes);
mlx_array op_expand(scope* s, mlx_array x, int axis);
mlx_array op_broadcast(scope* s, mlx_array x, const int* shape, int num_dims);
mlx_array op_slice(scope* s, mlx_array x, int axis, int start, int stop); /* a view of [start, stop) along one axis */
mlx_array op_flip(scope* s, mlx_array x, int axis);
mlx_array op_concatenate(scope* s, const mlx_array* parts, int num_parts, int axis);
mlx_array op_take(scope* s, mlx_array x, mlx_array indices, int axis);

/* a[indices[0], :, indices[1], …] = updates along `axes`; in place when `a` has no other reference at evaluation. */
mlx_array op_scatter(scope* s, mlx_array a, const mlx_array* indices, const int* axes, int num_axes, mlx_array updates);

/* `a` with `part` written at `start` (one index a dimension); in place when `a` has no other reference at evaluation. */
mlx_array op_update(scope* s, mlx_array a, mlx_array part, const int* start, int num_dims);
mlx_array op_copy(scope* s, mlx_array x); /* row-contiguous, in a buffer of its own */

/* ---- mixtures of experts ---- */
mlx_array op_largest(scope* s, mlx_array x, int count); /* indices of the `count` largest values of the last axis, in no order */
mlx_array op_take_along(scope* s, mlx_array x, mlx_array indices); /* values of the last axis at `indices` */
/* a[i] · b[indices[i]] for the matrices of the last two axes; `indices` has the leading shape of `a`, or broadcasts with it. */
mlx_array op_gather_matmul(scope* s, mlx_array a, mlx_array b, mlx_array indices);

/* Shorthands for literal shapes: SHAPE(2, 3) expands to `array, count`. */
#define SHAPE(...) (const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

#endif
