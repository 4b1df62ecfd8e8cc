#include "cache.h"

#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "array_memory.h"
#include "cpu/attention.h"

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
  for (int i = 0; i < 2 * cache->model->num_layers; i++)
    mlx_vector_array_append_value(roots, cache->layers[i / 2].arrays[i % 2]);
  for (int i = 0; i < cache->num_snapshots; i++) {
    const snapshot* taken = &cache->snapshots[i];
    if (taken->inputs.ctx != NULL) mlx_vector_array_append_value(roots, taken->inputs);
    for (int t = 0; t < taken->count; t++)
      if (taken->states[t].ctx != NULL) mlx_vector_array_append_value(roots, taken->states[t]);
  }
}

/* Shape of one of a layer's arrays for so many slots of so many tokens. */
static const int* sized(layer_state* state, int which, int slots, int capacity) {
  state->shapes[which][0] = slots;
  if (!state->is_recurrent) state->shapes[which][2] = capacity;
  return state->shapes[which];
}

static int min_int(int a, int b) { return a < b ? a : b; }

/* Zeros of the new size with the old content in their corner. */
static mlx_array resized(scope* s, const rl_cache* cache, layer_state state, int which, mlx_array old, int slots, int capacity) {
  mlx_array fresh = op_zeros(s, sized(&state, which, slots, capacity), 4, state.dtypes[which]);
  if (old.ctx == NULL || cache->num_slots == 0) return fresh;
  mlx_array kept = op_slice(s, old, 0, 0, min_int(slots, cache->num_slots));
  if (!state.is_recurrent) kept = op_slice(s, kept, 2, 0, min_int(capacity, cache->capacity));
  /* An update that covers everything is the view `kept` itself, which would hold the old buffer. */
  return op_copy(s, op_update(s, fresh, kept, SHAPE(0, 0, 0, 0)));
}

/* ---- sparse caches: the system gives memory to what is written, so that a slot takes what its row needs, whatever the capacity ---- */

/* The bytes of one token of one head, and how many heads a slot has. */
typedef struct head_layout {
  size_t token_bytes;
  int num_heads;
} head_layout;

static head_layout layout_of(const layer_state* state, int which) {
  return (head_layout){(size_t)state->shapes[which][3] * mlx_dtype_size(state->dtypes[which]), state->shapes[which][1]};
}

static uint8_t* head_data(mlx_array array, head_layout l, int slot, int head) {
  return array_data(array) + ((size_t)slot * (size_t)l.num_heads + (size_t)head) * (size_t)mlx_array_dim(array, 2) * l.token_bytes;
}

/* An array of the new size with what the slots hold. */
static int32_t resize_sparse(rl_cache* cache, int i, int slots, int capacity) {
  layer_state state = cache->model->states[i / 2];
  mlx_array* own = &cache->layers[i / 2].arrays[i % 2];
  head_layout l = layout_of(&state, i % 2);
  mlx_array fresh = array_sparse(sized(&state, i % 2, slots, capacity), 4, state.dtypes[i % 2]);
  if (fresh.ctx == NULL) return rl_fail(RL_ERR_MEMORY, "Cannot get memory for %d slots of %d tokens", slots, capacity);
  for (int slot = 0; slot < min_int(slots, cache->num_slots) && own->ctx != NULL; slot++)
    for (int head = 0; head < l.num_heads; head++)
      memcpy(head_data(fresh, l, slot, head), head_data(*own, l, slot, head),
             (size_t)min_int(cache->lengths[slot], capacity) * l.token_bytes);
  if (own->ctx != NULL) mlx_array_free(*own);
  *own = fresh;
  return RL_OK;
}

/* In so many tokens of a head there is a page of memory at least. */
enum { PAGED_TOKENS = 64 };

/* Makes zeros of what a slot holds; its memory goes back, up to the end of every head's last page. */
static void release_slot(rl_cache* cache, int slot) {
  if (cache->lengths[slot] == 0) return;
  int length = min_int((cache->lengths[slot] + PAGED_TOKENS - 1) / PAGED_TOKENS * PAGED_TOKENS, cache->capacity);
  for (int i = 0; i < 2 * cache->model->num_layers; i++) {
    const layer_state* state = &cache->model->states[i / 2];
    if (state->is_recurrent) continue;
    head_layout l = layout_of(state, i % 2);
    for (int head = 0; head < l.num_heads; head++)
      memory_clear(head_data(cache->layers[i / 2].arrays[i % 2], l, slot, head), (size_t)length * l.token_bytes);
  }
  cache->lengths[slot] = 0;
}

void cache_write(rl_cache* cache, int slot, int start, int end) {
  int* length = &cache->lengths[slot];
  if (cache->is_sparse && start == 0 && *length > end) release_slot(cache, slot);
  if (end > *length) *length = end;
}

/* Head by head, so that what is moved is there twice for one head only. */
static void move_sparse(rl_cache* cache, int i, int from, int to, int length) {
  head_layout l = layout_of(&cache->model->states[i / 2], i % 2);
  mlx_array own = cache->layers[i / 2].arrays[i % 2];
  for (int head = 0; head < l.num_heads; head++) {
    size_t num_bytes = (size_t)length * l.token_bytes;
    memcpy(head_data(own, l, to, head), head_data(own, l, from, head), num_bytes);
    memory_clear(head_data(own, l, from, head), num_bytes);
  }
}

void cache_settle(const rl_cache* cache) {
  if (cache->is_sparse) mlx_synchronize(cache->model->stream);
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

int32_t rl_cache_resize(rl_cache* cache, int32_t slots, int32_t capacity) {
  if (cache == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_resize: cache must not be NULL");
  if (slots < 0 || capacity < 0 || (slots == 0) != (capacity == 0) || slots > 4096 || capacity > 1 << 24)
    return rl_fail(RL_ERR_ARGUMENT, "rl_cache_resize: %d slots of %d tokens; expected 1 … 4096 of 1 … 2^24, or both 0", slots, capacity);
  int32_t status = model_check_thread(cache->model);
  if (status != RL_OK) return status;
  if (slots == 0) return free_layers(cache), give_memory_back(), RL_OK;
  bool is_smaller = slots < cache->num_slots || capacity < cache->capacity;
  int* lengths = calloc((size_t)slots, sizeof *lengths);
  if (lengths == NULL) return rl_fail(RL_ERR_MEMORY, "Out of memory for %d slots", slots);
  for (int slot = 0; slot < min_int(slots, cache->num_slots); slot++) lengths[slot] = min_int(cache->lengths[slot], capacity);
  cache_drop_snapshots(cache);
  cache_settle(cache);
  for (int i = 0; i < 2 * cache->model->num_layers && status == RL_OK; i++) {
    if (cache->is_sparse && !cache->model->states[i / 2].is_recurrent) {
      status = resize_sparse(cache, i, slots, capacity);
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
      move_sparse(cache, i, from, to, length);
      continue;
    }
    mlx_array* own = &cache->layers[i / 2].arrays[i % 2];
    scope s = scope_open(cache->model->stream);
    mlx_array rows = op_slice(&s, *own, 0, from, from + 1);
    rows = op_copy(&s, cache->model->states[i / 2].is_recurrent ? rows : op_slice(&s, rows, 2, 0, length));
    if (s.status == RL_OK) scope_check(&s, mlx_array_eval(rows));
    status = overwrite(&s, own, rows, to);
  }
  if (cache->is_sparse) release_slot(cache, from);
  return status;
}

int32_t rl_cache_release(rl_cache* cache, int32_t slot) {
  if (cache == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_release: cache must not be NULL");
  int32_t status = model_check_thread(cache->model);
  if (status == RL_OK) status = check_slot(cache, "rl_cache_release: slot", slot);
  if (status != RL_OK || !cache->is_sparse) return status;
  cache_settle(cache);
  release_slot(cache, slot);
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
  if (cache->is_sparse) release_slot(cache, slot);
  cache->lengths[slot] = 0;
  for (int i = 0; i < 2 * m->num_layers && status == RL_OK; i++) {
    layer_state state = m->states[i / 2];
    if (cache->is_sparse && !state.is_recurrent) continue;
    scope s = scope_open(m->stream);
    mlx_array zeros = op_zeros(&s, sized(&state, i % 2, 1, cache->capacity), 4, state.dtypes[i % 2]);
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
