#include "decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool decoder_read_sizes(weights* w, decoder* d) {
  config* c = w->config;
  d->num_layers = config_int(c, "num_hidden_layers", 1, 1000);
  d->num_heads = config_int(c, "num_attention_heads", 1, 1 << 14);
  d->num_kv_heads = config_int(c, "num_key_value_heads", 1, 1 << 14);
  d->head_dim = config_int(c, "head_dim", 2, 1 << 14);
  d->hidden_size = config_int(c, "hidden_size", 1, 1 << 20);
  d->vocab_size = config_int(c, "vocab_size", 1, 1 << 24);
  d->eps = (float)config_float(c, "rms_norm_eps", 0, 1);
  if (c->status == RL_OK && d->num_heads % d->num_kv_heads != 0)
    weights_fail(w, "num_attention_heads is %d, no multiple of num_key_value_heads %d", d->num_heads, d->num_kv_heads);
  if (c->status == RL_OK && d->head_dim % 2 != 0) weights_fail(w, "head_dim is %d, rotary positions need an even size", d->head_dim);
  if (w->status == RL_OK) w->status = c->status;
  return w->status == RL_OK;
}

void decoder_load_tables(weights* w, decoder* d, float norm_offset) {
  d->embedding = weights_embedding(w, "model.embed_tokens", d->vocab_size, d->hidden_size);
  d->norm = weights_norm(w, "model.norm.weight", d->hidden_size, norm_offset);
  projection head = {.module = "lm_head", .rows = d->vocab_size};
  if (!config_bool(w->config, "tie_word_embeddings")) d->head = weights_linear(w, &head, 1, d->hidden_size, false);
  else if (w->status == RL_OK) d->head = linear_of_embedding(&d->embedding);
}

void decoder_free(decoder* d) {
  embedding_free(&d->embedding);
  array_free(&d->norm);
  linear_free(&d->head);
}

/* ---- loading one block ---- */

static projection part(int layer, const char* module, int rows, int interleaved_head_dim) {
  projection p = {.rows = rows, .head_dim = interleaved_head_dim};
  snprintf(p.module, sizeof p.module, "model.layers.%d.%s", layer, module);
  return p;
}

mlx_array load_layer_norm(weights* w, int layer, const char* name, int size, float offset) {
  char full[160];
  snprintf(full, sizeof full, "model.layers.%d.%s.weight", layer, name);
  return weights_norm(w, full, size, offset);
}

linear load_projection(weights* w, int layer, const char* module, int out, int in, bool has_bias) {
  projection p = part(layer, module, out, 0);
  return weights_linear(w, &p, 1, in, has_bias);
}

linear load_qkv(weights* w, const decoder* d, int layer, bool has_bias) {
  int q_size = d->num_heads * d->head_dim, kv_size = d->num_kv_heads * d->head_dim;
  int permuted = config_bool(w->config, "qk_interleaved") ? d->head_dim : 0;
  projection parts[] = {part(layer, "self_attn.q_proj", q_size, permuted), part(layer, "self_attn.k_proj", kv_size, permuted),
                        part(layer, "self_attn.v_proj", kv_size, 0)};
  return weights_linear(w, parts, 3, d->hidden_size, has_bias);
}

linear load_gate_up(weights* w, const decoder* d, int layer, int intermediate_size, bool has_bias) {
  projection parts[] = {part(layer, "mlp.gate_proj", intermediate_size, 0), part(layer, "mlp.up_proj", intermediate_size, 0)};
  return weights_linear(w, parts, 2, d->hidden_size, has_bias);
}

/* [1, dim] to [heads, dim]. */
static mlx_array repeated(scope* s, mlx_array norm, int num_heads, int head_dim) {
  return op_broadcast(s, op_reshape(s, norm, SHAPE(1, head_dim)), SHAPE(num_heads, head_dim));
}

mlx_array load_qk_norm(weights* w, const decoder* d, int layer, float offset) {
  mlx_array q = load_layer_norm(w, layer, "self_attn.q_norm", d->head_dim, offset);
  mlx_array k = load_layer_norm(w, layer, "self_attn.k_norm", d->head_dim, offset), result = mlx_array_empty;
  if (w->status == RL_OK) {
    mlx_stream cpu = mlx_default_cpu_stream_new();
    scope s = scope_open(cpu);
    mlx_array both[] = {repeated(&s, q, d->num_heads, d->head_dim), repeated(&s, k, d->num_kv_heads, d->head_dim)};
    result = scope_release(&s, op_concatenate(&s, both, 2, 0));
    if (s.status == RL_OK) scope_check(&s, mlx_array_eval(result));
    scope_close(&s);
    mlx_stream_free(cpu);
    w->status = s.status;
  }
  array_free(&q);
  array_free(&k);
  return result;
}

int load_window(weights* w, int layer) {
  const char* type = config_entry(w->config, "layer_types", layer);
  bool is_sliding = type != NULL && strncmp(type, "sliding_attention", strlen("sliding_attention")) == 0;
  return is_sliding ? config_int(w->config, "sliding_window", 1, 1 << 24) : 0;
}

int config_list_int(weights* w, const char* key, int index, int missing) {
  if (*config_text(w->config, key) == '\0') return missing;
  const char* entry = config_entry(w->config, key, index);
  char* end = NULL;
  long value = entry != NULL ? strtol(entry, &end, 10) : 0;
  if (entry == NULL || end == entry || (*end != ',' && *end != '\0'))
    weights_fail(w, "The model config's %s has no number for entry %d: %.80s", key, index, config_text(w->config, key));
  return (int)value;
}

/* ---- computing one block ---- */

heads project_heads(scope* s, const decoder* d, const linear* qkv, mlx_array x) {
  mlx_array product = linear_apply(s, qkv, x);
  if (s->status != RL_OK) return (heads){mlx_array_empty, mlx_array_empty};
  int qk = d->num_heads + d->num_kv_heads, all = qk + d->num_kv_heads;
  product = op_reshape(s, product, SHAPE(mlx_array_dim(product, 0), all, d->head_dim));
  return (heads){op_slice(s, product, 1, 0, qk), op_slice(s, product, 1, qk, all)};
}

mlx_array head_norm(scope* s, mlx_array qk, mlx_array weight, float eps) {
  return op_multiply(s, rms_norm(s, qk, mlx_array_empty, eps), weight);
}

mlx_array attend_heads(forward* f, const decoder* d, int layer, heads h, float scale, int window) {
  return attend_joined(f, layer, h.qk, d->num_heads, h.v, scale, window);
}
