#include "matrix_product.h"

static const char* mode_name(const matrix* m) { return m->format.is_mxfp4 ? "mxfp4" : "affine"; }
static mlx_optional_int some(int value) { return (mlx_optional_int){value, true}; }

static mlx_array quantized_product(scope* s, const matrix* m, mlx_array x) {
  mlx_array result = mlx_array_new();
  scope_check(s, mlx_quantized_matmul(&result, x, m->values, m->scales, m->biases, true, some(m->format.group_size), some(m->format.bits),
                                      mode_name(m), s->stream));
  return scope_keep(s, result);
}

mlx_array matrix_product(scope* s, const matrix* m, mlx_array x) {
  if (s->status != RL_OK) return mlx_array_empty;
  mlx_array y = m->format.bits > 0 ? quantized_product(s, m, x) : op_matmul(s, x, m->transposed);
  return op_cast(s, y, mlx_array_dtype(x));
}

mlx_array matrix_rows(scope* s, const matrix* m, mlx_array indices, mlx_dtype dtype) {
  mlx_array rows = op_take(s, m->values, indices, 0);
  if (m->format.bits == 0) return op_cast(s, rows, dtype);
  mlx_array scales = op_take(s, m->scales, indices, 0);
  mlx_array biases = m->biases.ctx != NULL ? op_take(s, m->biases, indices, 0) : mlx_array_empty;
  if (s->status != RL_OK) return mlx_array_empty;
  mlx_array values = mlx_array_new();
  scope_check(s, mlx_dequantize(&values, rows, scales, biases, some(m->format.group_size), some(m->format.bits), mode_name(m),
                                mlx_array_empty, (mlx_optional_dtype){dtype, true}, s->stream));
  return op_cast(s, scope_keep(s, values), dtype);
}

static mlx_array gathered_quantized(scope* s, const matrix* m, mlx_array x, mlx_array experts) {
  mlx_array result = mlx_array_new();
  scope_check(s, mlx_gather_qmm(&result, x, m->values, m->scales, m->biases, mlx_array_empty, experts, true, some(m->format.group_size),
                                some(m->format.bits), mode_name(m), false, s->stream));
  return scope_keep(s, result);
}

static int min_int(int a, int b) { return a < b ? a : b; }

/* MLX gathers only float32 matrices on a CPU. Other types are copied out, a stack's worth at a time. */
static mlx_array copied_experts(scope* s, const matrix* m, mlx_array x, mlx_array experts) {
  int num_tokens = mlx_array_dim(experts, 0), choices = mlx_array_dim(experts, 1), num_pairs = num_tokens * choices;
  int in = mlx_array_dim(m->values, 2), out = mlx_array_dim(m->values, 1), step = mlx_array_dim(m->values, 0);
  mlx_array flat_experts = op_reshape(s, experts, SHAPE(num_pairs));
  mlx_array wide = mlx_array_dim(x, 1) == choices ? x : op_broadcast(s, x, SHAPE(num_tokens, choices, 1, in));
  mlx_array flat = op_reshape(s, wide, SHAPE(num_pairs, 1, in)), parts[(num_pairs + step - 1) / step];
  int num_parts = 0;
  for (int first = 0; first < num_pairs; first += step) {
    int end = min_int(first + step, num_pairs);
    mlx_array chosen = op_take(s, m->values, op_slice(s, flat_experts, 0, first, end), 0);
    parts[num_parts++] = op_matmul(s, op_slice(s, flat, 0, first, end), op_transpose(s, chosen, SHAPE(0, 2, 1)));
  }
  return op_reshape(s, op_concatenate(s, parts, num_parts, 0), SHAPE(num_tokens, choices, 1, out));
}

mlx_array matrix_product_of_experts(scope* s, const matrix* m, mlx_array x, mlx_array experts, bool is_gpu) {
  if (s->status != RL_OK) return mlx_array_empty;
  mlx_array rows = op_expand(s, x, 2), y; /* [tokens, 1 or choices, 1, in]: a product of one row for every pair of token and expert */
  if (s->status != RL_OK) return mlx_array_empty;
  if (m->format.bits > 0) y = gathered_quantized(s, m, rows, experts);
  else if (is_gpu || m->format.dtype == MLX_FLOAT32) y = op_gather_matmul(s, rows, m->transposed, experts);
  else y = copied_experts(s, m, rows, experts);
  if (s->status != RL_OK) return mlx_array_empty;
  return op_cast(s, op_reshape(s, y, SHAPE(mlx_array_dim(experts, 0), mlx_array_dim(experts, 1), mlx_array_dim(y, 3))), mlx_array_dtype(x));
}
