#include <math.h>
#include <stdlib.h>

#include "cache.h"
#include "cpu/attention.h"
#include "layers.h"

/* Position `key` is seen by a token when it is not behind the last one that the token sees, and within the window if there is one. */
static bool is_seen(int key, int last_seen, int window_from, int window) {
  return key <= last_seen && (window == 0 || key > window_from - window);
}

/* float [rows, 1, 1, count, length]: 0 where seen, -inf elsewhere; ctx NULL when everything is seen. */
static mlx_array make_mask(forward* f, const run* r, int window) {
  scope* s = f->s;
  float* mask = malloc((size_t)r->num_rows * (size_t)r->count * (size_t)r->length * sizeof *mask);
  if (mask == NULL) return scope_fail(s, RL_ERR_MEMORY, "Out of memory for an attention mask of %d positions", r->length), mlx_array_empty;
  bool sees_all = true;
  float* value = mask;
  for (int i = 0; i < r->num_rows * r->count; i++) {
    int last_seen = f->last_seen[r->first_token + i], window_from = f->window_from[r->first_token + i];
    for (int key = 0; key < r->length; key++, value++) {
      bool seen = is_seen(key, last_seen, window_from, window);
      *value = seen ? 0.0f : -INFINITY;
      sees_all = sees_all && seen;
    }
  }
  int shape[] = {r->num_rows, 1, 1, r->count, r->length};
  mlx_array array = sees_all ? mlx_array_empty : scope_keep(s, mlx_array_new_data(mask, shape, 5, MLX_FLOAT32));
  free(mask);
  return array;
}

static mlx_array run_mask(forward* f, run* r, int window) {
  mlx_array* mask = window > 0 ? &r->window_mask : &r->mask;
  bool* is_made = window > 0 ? &r->has_window_mask : &r->has_mask;
  if (!*is_made) *mask = make_mask(f, r, window), *is_made = true;
  return *mask;
}

/* [slots, kv heads, capacity, dim] to the run's rows and length: a view. */
static mlx_array run_view(scope* s, mlx_array cached, const run* r) {
  return op_slice(s, op_slice(s, cached, 0, r->first_slot, r->first_slot + r->num_rows), 2, 0, r->length);
}

/* Queries that share a kv head are rows of one product, so that keys and values are read once and never expanded. */
static mlx_array attend_run(forward* f, int layer, run* r, mlx_array q, float scale, int window) {
  scope* s = f->s;
  int num_heads = mlx_array_dim(q, 1), head_dim = mlx_array_dim(q, 2), num_kv_heads = f->model->num_kv_heads;
  int group = num_heads / num_kv_heads, n = r->num_rows, t = r->count;
  const mlx_array* cached = f->cache->layers[layer].arrays;
  mlx_array keys = run_view(s, cached[STATE_KEYS], r), values = run_view(s, cached[STATE_VALUES], r);
  q = op_slice(s, q, 0, r->first_token, r->first_token + n * t);
  q = op_transpose(s, op_reshape(s, q, SHAPE(n, t, num_kv_heads, group, head_dim)), SHAPE(0, 2, 3, 1, 4));
  q = op_reshape(s, q, SHAPE(n, num_kv_heads, group * t, head_dim));
  mlx_array scores = op_matmul(s, q, op_transpose(s, keys, SHAPE(0, 1, 3, 2)));
  scores = op_multiply(s, scores, op_scalar(s, scale, mlx_array_dtype(q)));
  mlx_array mask = run_mask(f, r, window);
  if (mask.ctx != NULL) {
    scores = op_reshape(s, scores, SHAPE(n, num_kv_heads, group, t, r->length));
    scores = op_reshape(s, op_add(s, scores, op_cast(s, mask, mlx_array_dtype(q))), SHAPE(n, num_kv_heads, group * t, r->length));
  }
  mlx_array out = op_matmul(s, op_softmax(s, scores), values);
  out = op_transpose(s, op_reshape(s, out, SHAPE(n, num_kv_heads, group, t, head_dim)), SHAPE(0, 3, 1, 2, 4));
  return op_reshape(s, out, SHAPE(n * t, num_heads * head_dim));
}

/* One scatter for all tokens of the step, whatever their rows: [tokens, 1, kv heads, 1, dim] at (slot, position). */
static void write_cache(forward* f, mlx_array* cached, mlx_array x) {
  scope* s = f->s;
  x = op_expand(s, op_expand(s, x, 1), 3);
  mlx_array updated = op_scatter(s, *cached, (const mlx_array[]){f->scatter_slots, f->scatter_positions}, (const int[]){0, 2}, 2, x);
  if (s->status == RL_OK) cache_replace(cached, updated);
}

static void host_write(forward* f, mlx_array* cached, mlx_array x, int first_head) {
  write_cache_params params = {first_head, f->cache->model->kv_is_8_bit};
  const mlx_array inputs[] = {*cached, x, f->scatter_slots, f->scatter_positions};
  mlx_array updated = op_host_in_place(f->s, host_write_cache, &params, sizeof params, inputs, 4);
  if (f->s->status == RL_OK) cache_replace(cached, updated);
}

bool attention_plan_tokens(forward* f) {
  if (f->host_last_seen.ctx != NULL) return true;
  f->host_last_seen = f->last_seen == f->positions ? f->scatter_positions : op_ints(f->s, f->last_seen, f->num_tokens);
  f->host_window_from = f->window_from == f->last_seen ? f->host_last_seen : op_ints(f->s, f->window_from, f->num_tokens);
  return f->s->status == RL_OK;
}

/* The slot of every token that attends: others may be written beside them. */
static void plan_slots(forward* f) {
  if (f->host_slots.ctx != NULL) return;
  int32_t* slots = malloc((size_t)f->num_tokens * sizeof *slots);
  if (slots == NULL) return scope_fail(f->s, RL_ERR_MEMORY, "Out of memory for the slots of %d tokens", f->num_tokens);
  for (const run* r = f->runs; r < f->runs + f->num_runs; r++)
    for (int i = 0; i < r->num_rows * r->count; i++) slots[r->first_token + i] = r->first_slot + i / r->count;
  f->host_slots = op_ints(f->s, slots, f->num_tokens);
  free(slots);
}

/* Queries are the first `num_heads` heads of q, keys those of k from `first_key_head` on: both may be one tensor. */
static mlx_array attend_on_host(forward* f, int layer, mlx_array q, int num_heads, mlx_array k, int first_key_head, mlx_array v, float scale,
                                int window) {
  scope* s = f->s;
  mlx_array* cached = f->cache->layers[layer].arrays;
  host_write(f, &cached[STATE_KEYS], k, first_key_head);
  host_write(f, &cached[STATE_VALUES], v, 0);
  plan_slots(f);
  if (!attention_plan_tokens(f)) return mlx_array_empty;
  attention_params params = {scale, num_heads, f->cache->model->kv_is_8_bit, window};
  const mlx_array inputs[] = {q, cached[STATE_KEYS], cached[STATE_VALUES], f->host_slots, f->host_last_seen, f->host_window_from};
  return op_host(s, host_attention, &params, sizeof params, inputs, 6, SHAPE(f->num_tokens, num_heads * mlx_array_dim(q, 2)), MLX_FLOAT32);
}

static bool attends_on_host(forward* f, mlx_array q) {
  return f->cache->model->kv_is_8_bit ||
         (host_ops_available(f->s) && mlx_array_dtype(q) == MLX_FLOAT32 && mlx_array_dim(q, 2) <= HOST_MAX_HEAD_DIM);
}

mlx_array attend_joined(forward* f, int layer, mlx_array qk, int num_heads, mlx_array v, float scale, int window) {
  if (f->s->status != RL_OK) return mlx_array_empty;
  if (attends_on_host(f, qk)) return attend_on_host(f, layer, qk, num_heads, qk, num_heads, v, scale, window);
  mlx_array q = op_slice(f->s, qk, 1, 0, num_heads), k = op_slice(f->s, qk, 1, num_heads, num_heads + f->model->num_kv_heads);
  return attend(f, layer, q, k, v, scale, window);
}

mlx_array attend(forward* f, int layer, mlx_array q, mlx_array k, mlx_array v, float scale, int window) {
  scope* s = f->s;
  if (s->status != RL_OK) return mlx_array_empty;
  if (attends_on_host(f, q)) return attend_on_host(f, layer, q, mlx_array_dim(q, 1), k, 0, v, scale, window);
  write_cache(f, &f->cache->layers[layer].arrays[STATE_KEYS], k);
  write_cache(f, &f->cache->layers[layer].arrays[STATE_VALUES], v);
  mlx_array parts[f->num_runs];
  for (int i = 0; i < f->num_runs; i++) parts[i] = attend_run(f, layer, &f->runs[i], q, scale, window);
  return op_concatenate(s, parts, f->num_runs, 0);
}
