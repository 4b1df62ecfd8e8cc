#include "layers.h"

#include <math.h>

#include "cpu/elementwise.h"
#include "matrix_product.h"
#include "model.h"

mlx_array linear_apply(scope* s, const linear* l, mlx_array x) {
  if (s->status != RL_OK) return mlx_array_empty;
  if (l->num_parts == 1) return matrix_product(s, &l->parts[0], x, l->bias);
  mlx_array products[PROJECTION_MAX_PARTS];
  for (int i = 0; i < l->num_parts; i++) products[i] = matrix_product(s, &l->parts[i], x, mlx_array_empty);
  mlx_array y = op_concatenate(s, products, l->num_parts, 1);
  return l->bias.ctx != NULL ? op_add(s, y, l->bias) : y;
}

mlx_array experts_apply(forward* f, const linear* l, mlx_array x, mlx_array experts) {
  scope* s = f->s;
  if (s->status != RL_OK) return mlx_array_empty;
  mlx_array products[PROJECTION_MAX_PARTS];
  for (int i = 0; i < l->num_parts; i++) products[i] = matrix_product_of_experts(s, &l->parts[i], x, experts, f->model->is_gpu);
  return op_concatenate(s, products, l->num_parts, 2);
}

mlx_array embedding_apply(scope* s, const embedding* e, mlx_array token_ids) {
  return matrix_rows(s, &e->table, token_ids, e->dtype);
}

static bool is_host_float(scope* s, mlx_array x) { return host_ops_available(s) && mlx_array_dtype(x) == MLX_FLOAT32; }

mlx_array rms_norm(scope* s, mlx_array x, mlx_array weight, float eps) {
  if (s->status != RL_OK) return mlx_array_empty;
  if (is_host_float(s, x)) {
    rms_norm_params params = {eps, weight.ctx != NULL};
    return op_host(s, host_rms_norm, &params, sizeof params, (const mlx_array[]){x, weight}, 1 + params.has_weight, mlx_array_shape(x),
                   (int)mlx_array_ndim(x), MLX_FLOAT32);
  }
  mlx_array result = mlx_array_new();
  scope_check(s, mlx_fast_rms_norm(&result, x, weight, eps, s->stream));
  return scope_keep(s, result);
}

/* [tokens, …, gate ‖ up] to [tokens, …, width]. */
static mlx_array host_gated(scope* s, host_kernel kernel, mlx_array gate_up) {
  int num_dims = (int)mlx_array_ndim(gate_up), shape[HOST_MAX_DIMS];
  for (int i = 0; i < num_dims; i++) shape[i] = mlx_array_dim(gate_up, i) / (i == num_dims - 1 ? 2 : 1);
  return op_host(s, kernel, "", 0, &gate_up, 1, shape, num_dims, MLX_FLOAT32);
}

mlx_array swiglu(scope* s, mlx_array gate_up) {
  if (s->status != RL_OK) return mlx_array_empty;
  if (is_host_float(s, gate_up)) return host_gated(s, host_swiglu, gate_up);
  int width = mlx_array_dim(gate_up, -1) / 2;
  mlx_array gate = op_slice(s, gate_up, -1, 0, width), up = op_slice(s, gate_up, -1, width, 2 * width);
  return op_multiply(s, op_silu(s, gate), up);
}

mlx_array geglu(scope* s, mlx_array gate_up) {
  if (s->status != RL_OK) return mlx_array_empty;
  if (is_host_float(s, gate_up)) return host_gated(s, host_geglu, gate_up);
  int width = mlx_array_dim(gate_up, -1) / 2;
  mlx_dtype dtype = mlx_array_dtype(gate_up);
  mlx_array x = op_slice(s, gate_up, -1, 0, width), up = op_slice(s, gate_up, -1, width, 2 * width);
  mlx_array cube = op_multiply(s, op_multiply(s, x, x), x);
  mlx_array inner = op_add(s, x, op_multiply(s, cube, op_scalar(s, 0.044715f, dtype)));
  mlx_array bent = op_tanh(s, op_multiply(s, inner, op_scalar(s, (float)sqrt(2 / M_PI), dtype)));
  mlx_array half = op_multiply(s, x, op_scalar(s, 0.5f, dtype));
  return op_multiply(s, op_multiply(s, half, op_add(s, bent, op_scalar(s, 1, dtype))), up);
}
