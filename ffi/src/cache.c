#include "cache.h"

#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "array_memory.h"
#include "cpu/attention.h"
#include "sparse_cache.h"

enum { MAX_SLOTS = 4096, MAX_CAPACITY = 1 << 24 };

void cache_replace(mlx_array* own, mlx_array updated) { mlx_array_set(own, updated); }

static int32_t check_slot(const rl_cache* cache, const char* name, int slot) {
  if (slot >= 0 && slot < cache->num_slots) return RL_OK;
  return rl_fail(RL_ERR_ARGUMENT, "%s is slot %d, the cache has %d", name, slot, cache->num_slots);
}

/* MLX's attention looks at zeros behind a row's tokens, ours does not look. */
bool cache_is_sparse(const rl_model* model) {
  return MEMORY_IS_SPARSE && model->uses_host_ops && model->dtype == MLX_FLOAT32 && model->head_dim <= HOST_MAX_HEAD_DIM;
}

int32_t rl_cache_new(rl_model* model, rl_cache** out) {
  if (model == NULL || out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_new: model and out must not be NULL");
  int32_t status = model_check_thread(model);
  if (status != RL_OK) return status;
  rl_cache* cache = calloc(1, sizeof *cache);
  if (cache != NULL)
    *cache = (rl_cache){
        .model = model, .layers = calloc((size_t)model->num_layers, sizeof(layer_cache)), .is_sparse = cache_is_sparse(model)};
  if (cache == NULL || cache->layers == NULL) return free(cache), rl_fail(RL_ERR_MEMORY, "Out of memory for a cache");
  *out = cache;
  return RL_OK;
}

static void free_layers(rl_cache* cache) {
  for (int i = 0; i < 2 * cache->model->num_layers; i++) array_free(&cache->layers[i / 2].arrays[i % 2]);
  cache_drop_snapshots(cache);
  free(cache->lengths);
  cache->lengths = NULL;
  cache->num_slots = cache->capacity = 0;
}

/* Freed caches are hundreds of megabytes that MLX and malloc would keep for the next one. */
static void give_memory_back(void) {
  mlx_clear_cache();
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

int32_t rl_cache_free(rl_cache* cache) {
  if (cache == NULL) return RL_OK;
  int32_t status = model_check_thread(cache->model);
  if (status != RL_OK) return status;
  free_layers(cache);
  free(cache->layers);
  free(cache->snapshots);
  free(cache);
  return RL_OK;
}

void cache_append_roots(const rl_cache* cache, mlx_vector_array roots) {
  for (int i = 0; i < 2 * cache->model->num_layers; i++) {
    /* Kernels of our own have written where an array lies: it is not new. */
    bool is_there = false;
    mlx_array array = cache->layers[i / 2].arrays[i % 2];
    if (_mlx_array_is_available(&is_there, array) != 0 || !is_there) mlx_vector_array_append_value(roots, array);
  }
  for (int i = 0; i < cache->num_snapshots; i++) {
    const snapshot* taken = &cache->snapshots[i];
    if (taken->inputs.ctx != NULL) mlx_vector_array_append_value(roots, taken->inputs);
    for (int t = 0; t < taken->count; t++)
      if (taken->states[t].ctx != NULL) mlx_vector_array_append_value(roots, taken->states[t]);
  }
}

const int* cache_shape(layer_state* state, int which, int slots, int capacity) {
  state->shapes[which][0] = slots;
  if (!state->is_recurrent) state->shapes[which][2] = capacity;
  return state->shapes[which];
}

static int min_int(int a, int b) { return a < b ? a : b; }

/* Zeros of the new size with the old content in their corner. */
static mlx_array resized(scope* s, const rl_cache* cache, layer_state state, int which, mlx_array old, int slots, int capacity) {
  mlx_array fresh = op_zeros(s, cache_shape(&state, which, slots, capacity), 4, state.dtypes[which]);
  if (old.ctx == NULL || cache->num_slots == 0) return fresh;
  mlx_array kept = op_slice(s, old, 0, 0, min_int(slots, cache->num_slots));
  if (!state.is_recurrent) kept = op_slice(s, kept, 2, 0, min_int(capacity, cache->capacity));
  /* An update that covers everything is the view `kept` itself, which would hold the old buffer. */
  return op_copy(s, op_update(s, fresh, kept, SHAPE(0, 0, 0, 0)));
}

void cache_write(rl_cache* cache, int slot, int start, int end) {
  int* length = &cache->lengths[slot];
  if (cache->is_sparse && start == 0 && *length > end) cache_settle(cache), sparse_release(cache, slot);
  if (end > *length) *length = end;
}

void cache_settle(const rl_cache* cache) {
  if (cache->model->uses_host_ops) mlx_synchronize(cache->model->stream);
}

/* Evaluates the arrays one by one: at most one of them lives twice at a time. */
static int32_t replace_evaluated(scope* s, mlx_array* own, mlx_array updated) {
  mlx_array next = scope_release(s, updated);
  scope_close(s);
  if (s->status == RL_OK) scope_check(s, mlx_array_eval(next));
  if (s->status == RL_OK && own->ctx != NULL) mlx_array_free(*own);
  if (s->status == RL_OK) *own = next;
  else mlx_array_free(next);
  return s->status;
}

int32_t rl_cache_reserve(rl_cache* cache, int32_t slots, int32_t capacity) {
  if (cache == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_reserve: cache must not be NULL");
  if (slots < 1 || capacity < 1 || slots > MAX_SLOTS || capacity > MAX_CAPACITY)
    return rl_fail(RL_ERR_ARGUMENT, "rl_cache_reserve: %d slots of %d tokens; expected 1 … %d of 1 … %d", slots, capacity, MAX_SLOTS, MAX_CAPACITY);
  uint64_t num_bytes = (uint64_t)model_kv_bytes(cache->model) * (uint64_t)slots * (uint64_t)capacity;
  bool is_there = cache->is_sparse && memory_has_address_space(num_bytes);
  cache->reserved_slots = is_there ? slots : 0, cache->reserved_capacity = is_there ? capacity : 0;
  return RL_OK;
}

int32_t rl_cache_resize(rl_cache* cache, int32_t slots, int32_t capacity) {
  if (cache == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_resize: cache must not be NULL");
  if (slots < 0 || capacity < 0 || (slots == 0) != (capacity == 0) || slots > MAX_SLOTS || capacity > MAX_CAPACITY)
    return rl_fail(RL_ERR_ARGUMENT, "rl_cache_resize: %d slots of %d tokens; expected 1 … %d of 1 … %d, or both 0", slots, capacity, MAX_SLOTS,
                   MAX_CAPACITY);
  int32_t status = model_check_thread(cache->model);
  if (status != RL_OK) return status;
  if (slots == 0) return free_layers(cache), give_memory_back(), RL_OK;
  bool is_smaller = slots < cache->num_slots || capacity < cache->capacity;
  int* lengths = calloc((size_t)slots, sizeof *lengths);
  if (lengths == NULL) return rl_fail(RL_ERR_MEMORY, "Out of memory for %d slots", slots);
  for (int slot = 0; slot < min_int(slots, cache->num_slots); slot++) lengths[slot] = min_int(cache->lengths[slot], capacity);
  cache_drop_snapshots(cache);
  cache_settle(cache);
  if (cache->is_sparse && is_smaller) sparse_shrink(cache, slots, capacity);
  for (int i = 0; i < 2 * cache->model->num_layers && status == RL_OK; i++) {
    if (cache->is_sparse && !cache->model->states[i / 2].is_recurrent) {
      status = sparse_resize(cache, i, slots, capacity);
      continue;
    }
    mlx_array* own = &cache->layers[i / 2].arrays[i % 2];
    scope s = scope_open(cache->model->stream);
    status = replace_evaluated(&s, own, resized(&s, cache, cache->model->states[i / 2], i % 2, *own, slots, capacity));
  }
  /* A layer that has grown before another one could not does no harm: what all of them have room for counts, and it was there before. */
  cache->num_slots = status == RL_OK ? slots : min_int(slots, cache->num_slots);
  cache->capacity = status == RL_OK ? capacity : min_int(capacity, cache->capacity);
  /* After a failure, arrays of both sizes are there: what fits the smaller one counts, and the rest is not looked at. */
  free(cache->lengths);
  cache->lengths = lengths;
  if (is_smaller) give_memory_back();
  return status;
}

/* Slot `to` of one array := `rows` (one slot; its first tokens in keys and values), in place. */
static int32_t overwrite(scope* s, mlx_array* own, mlx_array rows, int to) {
  mlx_array updated = scope_release(s, op_update(s, *own, rows, SHAPE(to, 0, 0, 0)));
  scope_close(s);
  if (s->status != RL_OK) return mlx_array_free(updated), s->status;
  mlx_array_free(*own);
  *own = updated;
  scope_check(s, mlx_array_eval(*own));
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
  cache_drop_snapshots(cache);
  cache_settle(cache);
  cache_write(cache, to, 0, length);
  for (int i = 0; i < 2 * cache->model->num_layers && status == RL_OK; i++) {
    if (cache->is_sparse && !cache->model->states[i / 2].is_recurrent) {
      sparse_move(cache, i, from, to, length);
      continue;
    }
    mlx_array* own = &cache->layers[i / 2].arrays[i % 2];
    scope s = scope_open(cache->model->stream);
    mlx_array rows = op_slice(&s, *own, 0, from, from + 1);
    rows = op_copy(&s, cache->model->states[i / 2].is_recurrent ? rows : op_slice(&s, rows, 2, 0, length));
    if (s.status == RL_OK) scope_check(&s, mlx_array_eval(rows));
    status = overwrite(&s, own, rows, to);
  }
  if (cache->is_sparse) sparse_release(cache, from);
  return status;
}

int32_t rl_cache_release(rl_cache* cache, int32_t slot) {
  if (cache == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_release: cache must not be NULL");
  int32_t status = model_check_thread(cache->model);
  if (status == RL_OK) status = check_slot(cache, "rl_cache_release: slot", slot);
  if (status != RL_OK || !cache->is_sparse) return status;
  cache_settle(cache);
  sparse_release(cache, slot);
  return RL_OK;
}

int32_t rl_cache_clear(rl_cache* cache, int32_t slot) {
  if (cache == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_clear: cache must not be NULL");
  const rl_model* m = cache->model;
  int32_t status = model_check_thread(m);
  if (status == RL_OK) status = check_slot(cache, "rl_cache_clear: slot", slot);
  if (status != RL_OK) return status;
  cache_drop_snapshots(cache);
  cache_settle(cache);
  if (cache->is_sparse) sparse_release(cache, slot);
  cache->lengths[slot] = 0;
  for (int i = 0; i < 2 * m->num_layers && status == RL_OK; i++) {
    layer_state state = m->states[i / 2];
    if (cache->is_sparse && !state.is_recurrent) continue;
    scope s = scope_open(m->stream);
    mlx_array zeros = op_zeros(&s, cache_shape(&state, i % 2, 1, cache->capacity), 4, state.dtypes[i % 2]);
    status = overwrite(&s, &cache->layers[i / 2].arrays[i % 2], zeros, slot);
  }
  return status;
}

int32_t rl_cache_info(const rl_cache* cache, int64_t* out) {
  if (cache == NULL || out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_info: cache and out must not be NULL");
  const rl_model* m = cache->model;
  out[0] = cache->num_slots;
  out[1] = cache->capacity;
  int64_t num_tokens = (int64_t)cache->num_slots * cache->capacity;
  if (cache->is_sparse) num_tokens = 0;
  for (int slot = 0; slot < cache->num_slots && cache->is_sparse; slot++) num_tokens += cache->lengths[slot];
  out[2] = num_tokens * model_kv_bytes(m) + cache->num_slots * model_recurrent_bytes(m);
  return RL_OK;
}
