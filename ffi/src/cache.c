#include "cache.h"

#include <stdlib.h>

void cache_replace(mlx_array* own, mlx_array updated) { mlx_array_set(own, updated); }

static int32_t check_slot(const rl_cache* cache, const char* name, int slot) {
  if (slot >= 0 && slot < cache->num_slots) return RL_OK;
  return rl_fail(RL_ERR_ARGUMENT, "%s is slot %d, the cache has %d", name, slot, cache->num_slots);
}

int32_t rl_cache_new(rl_model* model, rl_cache** out) {
  if (model == NULL || out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_new: model and out must not be NULL");
  int32_t status = model_check_thread(model);
  if (status != RL_OK) return status;
  rl_cache* cache = calloc(1, sizeof *cache);
  size_t num_layers = (size_t)model->num_layers;
  if (cache != NULL) *cache = (rl_cache){model, 0, 0, calloc(num_layers, sizeof(mlx_array)), calloc(num_layers, sizeof(mlx_array))};
  if (cache == NULL || cache->keys == NULL || cache->values == NULL) return rl_fail(RL_ERR_MEMORY, "Out of memory for a cache");
  *out = cache;
  return RL_OK;
}

static void free_layers(rl_cache* cache) {
  for (int i = 0; i < cache->model->num_layers; i++) {
    if (cache->keys[i].ctx != NULL) mlx_array_free(cache->keys[i]);
    if (cache->values[i].ctx != NULL) mlx_array_free(cache->values[i]);
    cache->keys[i] = cache->values[i] = mlx_array_empty;
  }
  cache->num_slots = cache->capacity = 0;
}

int32_t rl_cache_free(rl_cache* cache) {
  if (cache == NULL) return RL_OK;
  int32_t status = model_check_thread(cache->model);
  if (status != RL_OK) return status;
  free_layers(cache);
  free(cache->keys);
  free(cache->values);
  free(cache);
  return RL_OK;
}

/* Zeros of the new size with the old content in their corner. */
static mlx_array resized(scope* s, const rl_cache* cache, mlx_array old, int slots, int capacity) {
  const rl_model* m = cache->model;
  mlx_array fresh = op_zeros(s, SHAPE(slots, m->num_kv_heads, capacity, m->head_dim), m->dtype);
  if (old.ctx == NULL) return fresh;
  int kept_slots = slots < cache->num_slots ? slots : cache->num_slots;
  int kept_capacity = capacity < cache->capacity ? capacity : cache->capacity;
  mlx_array kept = op_slice(s, op_slice(s, old, 0, 0, kept_slots), 2, 0, kept_capacity);
  return op_update(s, fresh, kept, SHAPE(0, 0, 0, 0));
}

/* Evaluates the arrays one by one: at most one layer lives twice at a time. */
static int32_t replace_evaluated(scope* s, mlx_array* own, mlx_array updated) {
  mlx_array next = scope_release(s, updated);
  scope_close(s);
  if (s->status == RL_OK) scope_check(s, mlx_array_eval(next));
  if (s->status == RL_OK && own->ctx != NULL) mlx_array_free(*own);
  if (s->status == RL_OK) *own = next;
  else mlx_array_free(next);
  return s->status;
}

int32_t rl_cache_resize(rl_cache* cache, int32_t slots, int32_t capacity) {
  if (cache == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_resize: cache must not be NULL");
  if (slots < 0 || capacity < 0 || (slots == 0) != (capacity == 0) || slots > 4096 || capacity > 1 << 24)
    return rl_fail(RL_ERR_ARGUMENT, "rl_cache_resize: %d slots of %d tokens; expected 1 … 4096 of 1 … 2^24, or both 0", slots, capacity);
  int32_t status = model_check_thread(cache->model);
  if (status != RL_OK) return status;
  if (slots == 0) return free_layers(cache), RL_OK;
  for (int i = 0; i < cache->model->num_layers && status == RL_OK; i++) {
    scope s = scope_open(cache->model->stream);
    status = replace_evaluated(&s, &cache->keys[i], resized(&s, cache, cache->keys[i], slots, capacity));
    if (status == RL_OK) status = replace_evaluated(&s, &cache->values[i], resized(&s, cache, cache->values[i], slots, capacity));
  }
  if (status != RL_OK) return free_layers(cache), status; /* layers of different sizes are of no use */
  cache->num_slots = slots, cache->capacity = capacity;
  return RL_OK;
}

/* slot `to` [0, length) of one array := `rows` [1, kv heads, length, dim], in place. */
static int32_t overwrite(scope* s, mlx_array* own, mlx_array rows, int to) {
  mlx_array updated = scope_release(s, op_update(s, *own, rows, SHAPE(to, 0, 0, 0)));
  scope_close(s);
  mlx_array_free(*own);
  *own = updated;
  if (s->status == RL_OK) scope_check(s, mlx_array_eval(*own));
  return s->status;
}

int32_t rl_cache_move(rl_cache* cache, int32_t from, int32_t to, int32_t length) {
  if (cache == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_move: cache must not be NULL");
  int32_t status = model_check_thread(cache->model);
  if (status == RL_OK) status = check_slot(cache, "rl_cache_move: from", from);
  if (status == RL_OK) status = check_slot(cache, "rl_cache_move: to", to);
  if (status != RL_OK) return status;
  if (length < 0 || length > cache->capacity)
    return rl_fail(RL_ERR_ARGUMENT, "rl_cache_move: length is %d, expected 0 … %d", length, cache->capacity);
  if (length == 0 || from == to) return RL_OK;
  for (int i = 0; i < 2 * cache->model->num_layers && status == RL_OK; i++) {
    mlx_array* own = (i % 2 == 0 ? cache->keys : cache->values) + i / 2;
    scope s = scope_open(cache->model->stream);
    mlx_array rows = op_copy(&s, op_slice(&s, op_slice(&s, *own, 0, from, from + 1), 2, 0, length));
    if (s.status == RL_OK) scope_check(&s, mlx_array_eval(rows));
    status = overwrite(&s, own, rows, to);
  }
  return status;
}

int32_t rl_cache_clear(rl_cache* cache, int32_t slot) {
  if (cache == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_clear: cache must not be NULL");
  const rl_model* m = cache->model;
  int32_t status = model_check_thread(m);
  if (status == RL_OK) status = check_slot(cache, "rl_cache_clear: slot", slot);
  for (int i = 0; i < 2 * m->num_layers && status == RL_OK; i++) {
    scope s = scope_open(m->stream);
    mlx_array zeros = op_zeros(&s, SHAPE(1, m->num_kv_heads, cache->capacity, m->head_dim), m->dtype);
    status = overwrite(&s, (i % 2 == 0 ? cache->keys : cache->values) + i / 2, zeros, slot);
  }
  return status;
}

int32_t rl_cache_info(const rl_cache* cache, int64_t* out) {
  if (cache == NULL || out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_info: cache and out must not be NULL");
  const rl_model* m = cache->model;
  out[0] = cache->num_slots;
  out[1] = cache->capacity;
  out[2] = 2 * (int64_t)m->num_layers * cache->num_slots * cache->capacity * m->num_kv_heads * m->head_dim * (int64_t)mlx_dtype_size(m->dtype);
  return RL_OK;
}
