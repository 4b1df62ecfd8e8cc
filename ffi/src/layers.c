#include "layers.h"

mlx_array linear_apply(scope* s, const linear* l, mlx_array x) {
  mlx_array y = op_matmul(s, x, l->weight_t);
  return l->bias.ctx != NULL ? op_add(s, y, l->bias) : y;
}

mlx_array rms_norm(scope* s, mlx_array x, mlx_array weight, float eps) {
  if (s->status != RL_OK) return mlx_array_empty;
  mlx_array result = mlx_array_new();
  scope_check(s, mlx_fast_rms_norm(&result, x, weight, eps, s->stream));
  return scope_keep(s, result);
}

mlx_array swiglu(scope* s, mlx_array gate_up) {
  if (s->status != RL_OK) return mlx_array_empty;
  int width = mlx_array_dim(gate_up, 1) / 2;
  mlx_array gate = op_slice(s, gate_up, 1, 0, width), up = op_slice(s, gate_up, 1, width, 2 * width);
  return op_multiply(s, op_silu(s, gate), up);
}
