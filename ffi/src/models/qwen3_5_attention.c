#include "qwen3_5_attention.h"

#include <math.h>
#include <stdio.h>

gated_attention gated_attention_load(weights* w, const char* module, int hidden, float norm_offset) {
  config* c = w->config;
  char name[160];
  gated_attention a = {.num_heads = config_int(c, "num_attention_heads", 1, 1 << 14), .num_kv_heads = config_int(c, "num_key_value_heads", 1, 1 << 14),
                       .head_dim = config_int(c, "head_dim", 2, 1 << 14), .eps = (float)config_float(c, "rms_norm_eps", 0, 1)};
  a.rotary_dims = config_int(c, "rotary_dims", 2, a.head_dim);
  if (c->status == RL_OK && (a.num_heads % a.num_kv_heads != 0 || a.rotary_dims % 2 != 0))
    weights_fail(w, "%d attention heads on %d key-value heads with %d rotary dimensions do not fit", a.num_heads, a.num_kv_heads, a.rotary_dims);
  if (c->status != RL_OK || w->status != RL_OK) return a;
  int q_size = a.num_heads * a.head_dim, kv_size = a.num_kv_heads * a.head_dim;
  projection qkv[] = {{.rows = 2 * q_size}, {.rows = kv_size}, {.rows = kv_size}}, output = {.rows = hidden};
  for (int i = 0; i < 3; i++) snprintf(qkv[i].module, sizeof qkv[i].module, "%s.%c_proj", module, "qkv"[i]);
  snprintf(output.module, sizeof output.module, "%s.o_proj", module);
  a.qkv = weights_linear(w, qkv, 3, hidden, false);
  a.output = weights_linear(w, &output, 1, q_size, false);
  snprintf(name, sizeof name, "%s.q_norm.weight", module);
  a.query_norm = weights_norm(w, name, a.head_dim, norm_offset);
  snprintf(name, sizeof name, "%s.k_norm.weight", module);
  a.key_norm = weights_norm(w, name, a.head_dim, norm_offset);
  return a;
}

void gated_attention_free(gated_attention* a) {
  linear_free(&a->qkv);
  linear_free(&a->output);
  array_free(&a->query_norm);
  array_free(&a->key_norm);
}

mlx_array gated_attention_apply(forward* f, const gated_attention* a, int layer, const rope_tables* tables, mlx_array x) {
  scope* s = f->s;
  int n = f->num_tokens, q = a->num_heads, kv = a->num_kv_heads, d = a->head_dim;
  mlx_array qkv = linear_apply(s, &a->qkv, x);
  mlx_array queries_gates = op_reshape(s, op_slice(s, qkv, 1, 0, 2 * q * d), SHAPE(n, q, 2 * d));
  mlx_array keys = op_reshape(s, op_slice(s, qkv, 1, 2 * q * d, (2 * q + kv) * d), SHAPE(n, kv, d));
  mlx_array values = op_reshape(s, op_slice(s, qkv, 1, (2 * q + kv) * d, 2 * (q + kv) * d), SHAPE(n, kv, d));
  mlx_array queries = rms_norm(s, op_slice(s, queries_gates, 2, 0, d), a->query_norm, a->eps);
  mlx_array gates = op_reshape(s, op_slice(s, queries_gates, 2, d, 2 * d), SHAPE(n, q * d));
  queries = rope_apply(s, tables, queries, d, a->rotary_dims);
  keys = rope_apply(s, tables, rms_norm(s, keys, a->key_norm, a->eps), d, a->rotary_dims);
  mlx_array out = attend(f, layer, queries, keys, values, 1 / sqrtf((float)d), 0);
  return linear_apply(s, &a->output, op_multiply(s, out, op_sigmoid(s, gates)));
}
