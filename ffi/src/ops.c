#include "ops.h"

/* The one pattern of this file: run an mlx-c call unless the scope has failed, and keep its result. */
#define KEEP(call)                            \
  do {                                        \
    if (s->status != RL_OK) return mlx_array_empty; \
    mlx_array result = mlx_array_new();       \
    scope_check(s, (call));                   \
    return scope_keep(s, result);             \
  } while (0)

mlx_array op_scalar(scope* s, float value, mlx_dtype dtype) {
  mlx_array scalar = scope_keep(s, mlx_array_new_float32(value));
  return dtype == MLX_FLOAT32 ? scalar : op_cast(s, scalar, dtype);
}

mlx_array op_ints(scope* s, const int32_t* values, int count) {
  if (s->status != RL_OK) return mlx_array_empty;
  return scope_keep(s, mlx_array_new_data(values, &count, 1, MLX_INT32));
}

mlx_array op_floats(scope* s, const float* values, int count) {
  if (s->status != RL_OK) return mlx_array_empty;
  return scope_keep(s, mlx_array_new_data(values, &count, 1, MLX_FLOAT32));
}

mlx_array op_zeros(scope* s, const int* shape, int num_dims, mlx_dtype dtype) {
  KEEP(mlx_zeros(&result, shape, (size_t)num_dims, dtype, s->stream));
}

mlx_array op_cast(scope* s, mlx_array x, mlx_dtype dtype) {
  if (s->status != RL_OK || mlx_array_dtype(x) == dtype) return x;
  KEEP(mlx_astype(&result, x, dtype, s->stream));
}

mlx_array op_add(scope* s, mlx_array a, mlx_array b) { KEEP(mlx_add(&result, a, b, s->stream)); }
mlx_array op_subtract(scope* s, mlx_array a, mlx_array b) { KEEP(mlx_subtract(&result, a, b, s->stream)); }
mlx_array op_multiply(scope* s, mlx_array a, mlx_array b) { KEEP(mlx_multiply(&result, a, b, s->stream)); }
mlx_array op_divide(scope* s, mlx_array a, mlx_array b) { KEEP(mlx_divide(&result, a, b, s->stream)); }
mlx_array op_matmul(scope* s, mlx_array a, mlx_array b) { KEEP(mlx_matmul(&result, a, b, s->stream)); }
mlx_array op_sigmoid(scope* s, mlx_array x) { KEEP(mlx_sigmoid(&result, x, s->stream)); }
mlx_array op_silu(scope* s, mlx_array x) { return op_multiply(s, x, op_sigmoid(s, x)); }
mlx_array op_exp(scope* s, mlx_array x) { KEEP(mlx_exp(&result, x, s->stream)); }
mlx_array op_negative(scope* s, mlx_array x) { KEEP(mlx_negative(&result, x, s->stream)); }
static mlx_array op_logaddexp(scope* s, mlx_array a, mlx_array b) { KEEP(mlx_logaddexp(&result, a, b, s->stream)); }
mlx_array op_softplus(scope* s, mlx_array x) {
  return s->status == RL_OK ? op_logaddexp(s, x, op_scalar(s, 0, mlx_array_dtype(x))) : mlx_array_empty;
}

mlx_array op_where(scope* s, mlx_array condition, mlx_array a, mlx_array b) { KEEP(mlx_where(&result, condition, a, b, s->stream)); }

mlx_array op_cumulative_sum(scope* s, mlx_array x, int axis) {
  KEEP(mlx_cumsum_axis(&result, x, axis, false, true, (mlx_optional_dtype){.has_value = false}, s->stream));
}

mlx_array op_triangular_inverse(scope* s, mlx_array x) {
  if (s->status != RL_OK) return mlx_array_empty;
  mlx_array result = mlx_array_new();
  mlx_stream cpu = mlx_default_cpu_stream_new();
  scope_check(s, mlx_linalg_tri_inv(&result, x, false, cpu));
  mlx_stream_free(cpu);
  return scope_keep(s, result);
}

mlx_array op_tanh(scope* s, mlx_array x) { KEEP(mlx_tanh(&result, x, s->stream)); }
mlx_array op_softmax(scope* s, mlx_array x) { KEEP(mlx_softmax_axis(&result, x, -1, true, s->stream)); }
mlx_array op_sum(scope* s, mlx_array x, int axis, bool keep_dims) { KEEP(mlx_sum_axis(&result, x, axis, keep_dims, s->stream)); }

mlx_array op_reshape(scope* s, mlx_array x, const int* shape, int num_dims) {
  KEEP(mlx_reshape(&result, x, shape, (size_t)num_dims, s->stream));
}

mlx_array op_transpose(scope* s, mlx_array x, const int* axes, int num_axes) {
  KEEP(mlx_transpose_axes(&result, x, axes, (size_t)num_axes, s->stream));
}

mlx_array op_broadcast(scope* s, mlx_array x, const int* shape, int num_dims) {
  KEEP(mlx_broadcast_to(&result, x, shape, (size_t)num_dims, s->stream));
}

mlx_array op_expand(scope* s, mlx_array x, int axis) { KEEP(mlx_expand_dims(&result, x, axis, s->stream)); }

enum { MAX_DIMS = 8 };

mlx_array op_slice(scope* s, mlx_array x, int axis, int start, int stop) {
  if (s->status != RL_OK) return mlx_array_empty;
  int num_dims = (int)mlx_array_ndim(x), starts[MAX_DIMS] = {0}, stops[MAX_DIMS], steps[MAX_DIMS];
  const int* shape = mlx_array_shape(x);
  for (int i = 0; i < num_dims; i++) stops[i] = shape[i], steps[i] = 1;
  if (axis < 0) axis += num_dims;
  if (start == 0 && stop == shape[axis]) return x;
  starts[axis] = start, stops[axis] = stop;
  KEEP(mlx_slice(&result, x, starts, (size_t)num_dims, stops, (size_t)num_dims, steps, (size_t)num_dims, s->stream));
}

mlx_array op_flip(scope* s, mlx_array x, int axis) {
  if (s->status != RL_OK) return mlx_array_empty;
  int num_dims = (int)mlx_array_ndim(x), starts[MAX_DIMS] = {0}, stops[MAX_DIMS], steps[MAX_DIMS];
  const int* shape = mlx_array_shape(x);
  for (int i = 0; i < num_dims; i++) stops[i] = shape[i], steps[i] = 1;
  if (axis < 0) axis += num_dims;
  starts[axis] = shape[axis] - 1, stops[axis] = -shape[axis] - 1, steps[axis] = -1;
  KEEP(mlx_slice(&result, x, starts, (size_t)num_dims, stops, (size_t)num_dims, steps, (size_t)num_dims, s->stream));
}

mlx_array op_concatenate(scope* s, const mlx_array* parts, int num_parts, int axis) {
  if (s->status != RL_OK) return mlx_array_empty;
  if (num_parts == 1) return parts[0];
  mlx_array result = mlx_array_new();
  mlx_vector_array vector = mlx_vector_array_new_data(parts, (size_t)num_parts);
  scope_check(s, mlx_concatenate_axis(&result, vector, axis, s->stream));
  mlx_vector_array_free(vector);
  return scope_keep(s, result);
}

mlx_array op_take(scope* s, mlx_array x, mlx_array indices, int axis) { KEEP(mlx_take_axis(&result, x, indices, axis, s->stream)); }

mlx_array op_scatter(scope* s, mlx_array a, const mlx_array* indices, const int* axes, int num_axes, mlx_array updates) {
  if (s->status != RL_OK) return mlx_array_empty;
  mlx_array result = mlx_array_new();
  mlx_vector_array vector = mlx_vector_array_new_data(indices, (size_t)num_axes);
  scope_check(s, mlx_scatter(&result, a, vector, updates, axes, (size_t)num_axes, s->stream));
  mlx_vector_array_free(vector);
  return scope_keep(s, result);
}

mlx_array op_update(scope* s, mlx_array a, mlx_array part, const int* start, int num_dims) {
  if (s->status != RL_OK) return mlx_array_empty;
  int stops[MAX_DIMS], steps[MAX_DIMS];
  const int* shape = mlx_array_shape(part);
  for (int i = 0; i < num_dims; i++) stops[i] = start[i] + shape[i], steps[i] = 1;
  size_t n = (size_t)num_dims;
  KEEP(mlx_slice_update(&result, a, part, start, n, stops, n, steps, n, s->stream));
}

mlx_array op_copy(scope* s, mlx_array x) { KEEP(mlx_contiguous(&result, x, false, s->stream)); }

mlx_array op_largest(scope* s, mlx_array x, int count) {
  mlx_array negative = op_negative(s, x);
  if (s->status != RL_OK) return mlx_array_empty;
  mlx_array order = mlx_array_new();
  scope_check(s, mlx_argpartition_axis(&order, negative, count - 1, -1, s->stream));
  return op_slice(s, scope_keep(s, order), -1, 0, count);
}

mlx_array op_take_along(scope* s, mlx_array x, mlx_array indices) { KEEP(mlx_take_along_axis(&result, x, indices, -1, s->stream)); }

mlx_array op_gather_matmul(scope* s, mlx_array a, mlx_array b, mlx_array indices) {
  KEEP(mlx_gather_mm(&result, a, b, mlx_array_empty, indices, false, s->stream));
}
