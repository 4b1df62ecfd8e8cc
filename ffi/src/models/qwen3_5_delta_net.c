#include "qwen3_5_delta_net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../delta_net.h"

#define NAME(...) (snprintf(name, sizeof name, __VA_ARGS__), name)

static int num_channels(const delta_net_sizes* z) { return 2 * z->num_key_heads * z->key_dim + z->num_value_heads * z->value_dim; }

delta_net_sizes delta_net_read_sizes(weights* w) {
  config* c = w->config;
  delta_net_sizes z = {
      .num_key_heads = config_int(c, "linear_num_key_heads", 1, 1 << 12),
      .num_value_heads = config_int(c, "linear_num_value_heads", 1, 1 << 12),
      .key_dim = config_int(c, "linear_key_head_dim", 1, 1 << 12),
      .value_dim = config_int(c, "linear_value_head_dim", 1, 1 << 12),
      .num_taps = config_int(c, "linear_conv_kernel_dim", 2, 64),
      .eps = (float)config_float(c, "rms_norm_eps", 0, 1),
      .is_gguf = config_bool(c, "is_gguf"),
  };
  if (c->status == RL_OK && z.num_value_heads % z.num_key_heads != 0)
    weights_fail(w, "linear_num_value_heads is %d, no multiple of linear_num_key_heads %d", z.num_value_heads, z.num_key_heads);
  return z;
}

/* A required dense tensor of `count` values, as float32 of the given shape; `map` is applied to each value. */
static mlx_array read_floats(weights* w, const char* name, int count, const int* shape, int num_dims, float (*map)(float)) {
  const tensor* t = w->status == RL_OK ? tensors_find(w->tensors, name) : NULL;
  bool fits = t != NULL && t->type->to_float != NULL && t->type->block_size == 1 && t->shape[0] == shape[0] &&
              t->num_bytes == (uint64_t)count * (uint64_t)t->type->block_bytes;
  if (!fits) {
    weights_fail(w, "The checkpoint has no tensor %s of %d numbers in %d rows", name, count, shape[0]);
    return mlx_array_empty;
  }
  float* values = malloc((size_t)count * sizeof *values);
  if (values == NULL) return weights_fail(w, "Out of memory for tensor %s", name), mlx_array_empty;
  t->type->to_float(t->data, values, (size_t)count);
  for (int i = 0; map != NULL && i < count; i++) values[i] = map(values[i]);
  w->num_bytes += (uint64_t)count * sizeof *values;
  return mlx_array_new_data_managed(values, shape, num_dims, MLX_FLOAT32, free);
}

static float negative_exp(float value) { return -expf(value); }

/* All layouts of the kernel, [channels, 1, taps], [channels, taps, 1] and [channels, taps], lie in memory as [channels, taps]. */
static mlx_array read_kernel(weights* w, const char* name, int channels, int taps) {
  mlx_array kernel = read_floats(w, name, channels * taps, SHAPE(channels, taps), NULL);
  if (kernel.ctx == NULL) return kernel;
  mlx_stream cpu = mlx_default_cpu_stream_new();
  scope s = scope_open(cpu);
  mlx_array transposed = scope_release(&s, op_copy(&s, op_transpose(&s, kernel, SHAPE(1, 0))));
  scope_close(&s);
  mlx_array_free(kernel);
  mlx_stream_free(cpu);
  if (s.status != RL_OK) w->status = s.status;
  return transposed;
}

delta_net delta_net_load(weights* w, const delta_net_sizes* z, const char* module, int hidden) {
  char name[128];
  int heads = z->num_value_heads, value_size = heads * z->value_dim;
  projection qkv_z[] = {projection_of(module, "in_proj_qkv", num_channels(z)), projection_of(module, "in_proj_z", value_size)};
  projection beta_decay[] = {projection_of(module, "in_proj_b", heads), projection_of(module, "in_proj_a", heads)};
  projection output = projection_of(module, "out_proj", hidden);
  delta_net d = {.qkv_z = weights_linear(w, qkv_z, 2, hidden, false), .beta_decay = weights_linear(w, beta_decay, 2, hidden, false),
                 .output = weights_linear(w, &output, 1, value_size, false)};
  d.kernel = read_kernel(w, NAME("%s.conv1d.weight", module), num_channels(z), z->num_taps);
  d.decay_rate = read_floats(w, NAME("%s.A_log", module), heads, SHAPE(heads), z->is_gguf ? NULL : negative_exp);
  d.time_bias = read_floats(w, NAME("%s.dt_bias", module), heads, SHAPE(heads), NULL);
  d.norm = read_floats(w, NAME("%s.norm.weight", module), z->value_dim, SHAPE(z->value_dim), NULL);
  return d;
}

void delta_net_free(delta_net* d) {
  linear* linears[] = {&d->qkv_z, &d->beta_decay, &d->output};
  mlx_array* arrays[] = {&d->kernel, &d->decay_rate, &d->time_bias, &d->norm};
  for (size_t i = 0; i < sizeof linears / sizeof *linears; i++) linear_free(linears[i]);
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) array_free(arrays[i]);
}

layer_state delta_net_state(const delta_net_sizes* z) {
  return (layer_state){.is_recurrent = true, .dtypes = {MLX_FLOAT32, MLX_FLOAT32},
                       .shapes = {{0, 1, z->num_taps - 1, num_channels(z)}, {0, z->num_value_heads, z->value_dim, z->key_dim}}};
}

/* Rows of x divided by their length times `scale` of the paper: rms_norm divides by the root of the mean, which is sqrt(dim) shorter. */
static mlx_array unit_rows(scope* s, mlx_array x, float scale) {
  int dim = s->status == RL_OK ? mlx_array_dim(x, 2) : 1;
  return op_multiply(s, rms_norm(s, x, mlx_array_empty, 1e-6f / (float)dim), op_scalar(s, scale / sqrtf((float)dim), MLX_FLOAT32));
}

static mlx_array heads_of(scope* s, mlx_array x, int start, int num_heads, int dim) {
  if (s->status != RL_OK) return mlx_array_empty;
  return op_reshape(s, op_slice(s, x, 1, start, start + num_heads * dim), SHAPE(mlx_array_dim(x, 0), num_heads, dim));
}

/* The axis of value heads, [tokens, outer * inner, dim], as [tokens, inner * outer, dim]. */
static mlx_array swap_heads(scope* s, mlx_array x, int outer, int inner, int dim) {
  if (s->status != RL_OK || outer == 1 || inner == 1) return x;
  int n = mlx_array_dim(x, 0);
  return op_reshape(s, op_transpose(s, op_reshape(s, x, SHAPE(n, outer, inner, dim)), SHAPE(0, 2, 1, 3)), SHAPE(n, outer * inner, dim));
}

/* The rule takes value heads with those of one key head side by side, and gives them so. */
static mlx_array apply_rule(forward* f, const delta_net_sizes* z, int layer, delta_rule rule) {
  scope* s = f->s;
  int keys = z->num_key_heads, group = z->num_value_heads / keys, n = f->num_tokens;
  if (!z->is_gguf) return gated_delta_rule(f, layer, &rule);
  rule.values = swap_heads(s, rule.values, group, keys, z->value_dim);
  rule.betas = op_reshape(s, swap_heads(s, op_expand(s, rule.betas, 2), group, keys, 1), SHAPE(n, z->num_value_heads));
  rule.log_decays = op_reshape(s, swap_heads(s, op_expand(s, rule.log_decays, 2), group, keys, 1), SHAPE(n, z->num_value_heads));
  return swap_heads(s, gated_delta_rule(f, layer, &rule), keys, group, z->value_dim);
}

mlx_array delta_net_apply(forward* f, const delta_net_sizes* z, const delta_net* d, int layer, mlx_array x) {
  scope* s = f->s;
  int n = f->num_tokens, channels = num_channels(z), key_size = z->num_key_heads * z->key_dim, heads = z->num_value_heads;
  mlx_array qkv_z = op_cast(s, linear_apply(s, &d->qkv_z, x), MLX_FLOAT32);
  mlx_array beta_decay = op_cast(s, linear_apply(s, &d->beta_decay, x), MLX_FLOAT32);
  mlx_array qkv = op_silu(s, causal_convolution(f, layer, op_slice(s, qkv_z, 1, 0, channels), d->kernel));
  mlx_array steps = op_softplus(s, op_add(s, op_slice(s, beta_decay, 1, heads, 2 * heads), d->time_bias));
  delta_rule rule = {
      .queries = unit_rows(s, heads_of(s, qkv, 0, z->num_key_heads, z->key_dim), 1 / sqrtf((float)z->key_dim)),
      .keys = unit_rows(s, heads_of(s, qkv, key_size, z->num_key_heads, z->key_dim), 1),
      .values = heads_of(s, qkv, 2 * key_size, heads, z->value_dim),
      .betas = op_sigmoid(s, op_slice(s, beta_decay, 1, 0, heads)),
      .log_decays = op_multiply(s, steps, d->decay_rate),
  };
  mlx_array y = rms_norm(s, apply_rule(f, z, layer, rule), d->norm, z->eps);
  mlx_array gates = op_silu(s, heads_of(s, qkv_z, channels, heads, z->value_dim));
  y = op_reshape(s, op_multiply(s, y, gates), SHAPE(n, heads * z->value_dim));
  return linear_apply(s, &d->output, op_cast(s, y, f->model->dtype));
}
