#include "matrix_product.h"

#include <string.h>

#include "cpu/host_op.h"

static const char* mode_name(const matrix* m) { return m->format.is_mxfp4 ? "mxfp4" : "affine"; }
static mlx_optional_int some(int value) { return (mlx_optional_int){value, true}; }

static mlx_array quantized_product(scope* s, const matrix* m, mlx_array x) {
  mlx_array result = mlx_array_new();
  scope_check(s, mlx_quantized_matmul(&result, x, m->values, m->scales, m->biases, true, some(m->format.group_size), some(m->format.bits),
                                      mode_name(m), s->stream));
  return scope_keep(s, result);
}

/* ---- on a CPU ---- */

static weight_type type_of(const matrix_format* format) {
  if (format->blocks != BLOCKS_NONE) return (weight_type)(WEIGHTS_BLOCKS_4 + (int)format->blocks - BLOCKS_4);
  return format->dtype == MLX_FLOAT32 ? WEIGHTS_F32 : format->dtype == MLX_FLOAT16 ? WEIGHTS_F16 : WEIGHTS_BF16;
}

/* Blocks have no other product than this one. */
bool matrix_is_host(scope* s, const matrix* m) { return m->format.blocks != BLOCKS_NONE || (m->format.bits == 0 && host_ops_available(s)); }

static bool uses_host_product(scope* s, const matrix* m, mlx_array x) {
  return matrix_is_host(s, m) && (m->format.blocks != BLOCKS_NONE || mlx_array_dtype(x) == MLX_FLOAT32);
}

product_weights matrix_host_weights(const matrix* m) {
  return (product_weights){.type = type_of(&m->format), .n = mlx_array_dim(m->values, -2), .k = m->columns};
}

/* x [tokens, in], weights, bias if any. */
static void run_product(const void* params, const host_tensor* inputs, void* output) {
  product_weights w = *(const product_weights*)params;
  w.data = inputs[1].data;
  const host_tensor* x = &inputs[0];
  const float* bias = w.has_bias ? inputs[2].data : NULL;
  if (x->strides[1] == 1 || w.k == 1) {
    product(&w, x->data, x->strides[0], x->shape[0], bias, output, w.n);
    return;
  }
  /* A view whose features are apart, which no architecture makes for more than a few rows. */
  float row[w.k];
  for (int i = 0; i < x->shape[0]; i++) {
    for (int k = 0; k < w.k; k++) row[k] = ((const float*)x->data)[i * x->strides[0] + k * x->strides[1]];
    product(&w, row, w.k, 1, bias, (float*)output + (size_t)i * (size_t)w.n, w.n);
  }
}

static mlx_array host_product(scope* s, const matrix* m, mlx_array x, mlx_array bias) {
  int num_dims = (int)mlx_array_ndim(x), shape[HOST_MAX_DIMS];
  product_weights w = matrix_host_weights(m);
  w.has_bias = bias.ctx != NULL;
  for (int i = 0; i < num_dims; i++) shape[i] = mlx_array_dim(x, i);
  if (num_dims != 2) x = op_reshape(s, x, SHAPE(-1, m->columns));
  if (s->status != RL_OK) return mlx_array_empty;
  mlx_array y = op_host(s, run_product, &w, sizeof w, (const mlx_array[]){x, m->values, bias}, 2 + w.has_bias, SHAPE(mlx_array_dim(x, 0), w.n),
                        MLX_FLOAT32);
  shape[num_dims - 1] = w.n;
  return num_dims == 2 ? y : op_reshape(s, y, shape, num_dims);
}

/* Token ids [tokens], weights. */
static void run_rows(const void* params, const host_tensor* inputs, void* output) {
  product_weights w = *(const product_weights*)params;
  w.data = inputs[1].data;
  const int32_t* ids = inputs[0].data;
  for (int i = 0; i < inputs[0].shape[0]; i++) product_weights_row(&w, ids[i * inputs[0].strides[0]], (float*)output + (size_t)i * (size_t)w.k);
}

typedef struct expert_call {
  product_weights w; /* of one expert */
  int choices;       /* of each token */
  bool is_shared;    /* x has one row for each token instead of one for each pair of token and choice */
} expert_call;

/* Rows that one product gathers, and floats of them with their results. */
enum { MAX_GATHERED_ROWS = 64, MAX_GATHERED_FLOATS = 1 << 16 };

/* The product of one expert with the rows of `count` pairs. */
static void run_pairs(const expert_call* c, const int* pairs, int count, const float* x, float* y) {
  size_t k = (size_t)c->w.k, n = (size_t)c->w.n;
  if (count == 1) {
    product(&c->w, x + k * (size_t)(c->is_shared ? pairs[0] / c->choices : pairs[0]), c->w.k, 1, NULL, y + n * (size_t)pairs[0], c->w.n);
    return;
  }
  float gathered[(size_t)count * (k + n)], *results = gathered + (size_t)count * k;
  for (int r = 0; r < count; r++)
    memcpy(gathered + k * (size_t)r, x + k * (size_t)(c->is_shared ? pairs[r] / c->choices : pairs[r]), k * sizeof *x);
  product(&c->w, gathered, c->w.k, count, NULL, results, c->w.n);
  for (int r = 0; r < count; r++) memcpy(y + n * (size_t)pairs[r], results + n * (size_t)r, n * sizeof *y);
}

/* x [tokens, 1 or choices, in], experts [tokens, choices], weights [experts, out, in]. The pairs of each expert are one product, or some. */
static void run_experts(const void* params, const host_tensor* inputs, void* output) {
  expert_call c = *(const expert_call*)params;
  const int32_t* experts = inputs[1].data;
  int num_pairs = inputs[1].shape[0] * c.choices, pairs[MAX_GATHERED_ROWS], most = MAX_GATHERED_FLOATS / (c.w.k + c.w.n);
  most = most < 1 ? 1 : most > MAX_GATHERED_ROWS ? MAX_GATHERED_ROWS : most;
  for (int e = 0; e < inputs[2].shape[0]; e++) {
    int count = 0;
    c.w.data = (const uint8_t*)inputs[2].data + (size_t)e * weight_row_bytes(c.w.type, c.w.k) * (size_t)c.w.n;
    for (int i = 0; i < num_pairs; i++) {
      if (experts[i] == e) pairs[count++] = i;
      if (count == 0 || (count < most && i < num_pairs - 1)) continue;
      run_pairs(&c, pairs, count, inputs[0].data, output);
      count = 0;
    }
  }
}

static mlx_array host_product_of_experts(scope* s, const matrix* m, mlx_array x, mlx_array experts) {
  int num_tokens = mlx_array_dim(experts, 0), choices = mlx_array_dim(experts, 1);
  expert_call c = {.w = matrix_host_weights(m), .choices = choices, .is_shared = mlx_array_dim(x, 1) == 1};
  const mlx_array inputs[] = {op_copy(s, x), op_copy(s, op_cast(s, experts, MLX_INT32)), m->values};
  return op_host(s, run_experts, &c, sizeof c, inputs, 3, SHAPE(num_tokens, choices, c.w.n), MLX_FLOAT32);
}

mlx_array matrix_product(scope* s, const matrix* m, mlx_array x, mlx_array bias) {
  if (s->status != RL_OK) return mlx_array_empty;
  if (uses_host_product(s, m, x)) return host_product(s, m, x, bias);
  mlx_array y = m->format.bits > 0 ? quantized_product(s, m, x) : op_matmul(s, x, m->transposed);
  y = op_cast(s, y, mlx_array_dtype(x));
  return bias.ctx != NULL ? op_add(s, y, bias) : y;
}

mlx_array matrix_rows(scope* s, const matrix* m, mlx_array indices, mlx_dtype dtype) {
  if (s->status != RL_OK) return mlx_array_empty;
  if (m->format.blocks != BLOCKS_NONE) {
    product_weights w = matrix_host_weights(m);
    return op_host(s, run_rows, &w, sizeof w, (const mlx_array[]){op_cast(s, indices, MLX_INT32), m->values}, 2,
                   SHAPE(mlx_array_dim(indices, 0), w.k), MLX_FLOAT32);
  }
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
  if (uses_host_product(s, m, x)) return host_product_of_experts(s, m, x, experts);
  mlx_array rows = op_expand(s, x, 2), y; /* [tokens, 1 or choices, 1, in]: a product of one row for every pair of token and expert */
  if (s->status != RL_OK) return mlx_array_empty;
  if (m->format.bits > 0) y = gathered_quantized(s, m, rows, experts);
  else if (is_gpu || m->format.dtype == MLX_FLOAT32) y = op_gather_matmul(s, rows, m->transposed, experts);
  else y = copied_experts(s, m, rows, experts);
  if (s->status != RL_OK) return mlx_array_empty;
  return op_cast(s, op_reshape(s, y, SHAPE(mlx_array_dim(experts, 0), mlx_array_dim(experts, 1), mlx_array_dim(y, 3))), mlx_array_dtype(x));
}
