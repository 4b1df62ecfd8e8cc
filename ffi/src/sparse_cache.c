#include "sparse_cache.h"

#include <string.h>

#include "array_memory.h"

static int min_int(int a, int b) { return a < b ? a : b; }

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

uint8_t* cache_tokens(const rl_cache* cache, int array, int slot, int head, int first_token, size_t* token_bytes) {
  head_layout l = layout_of(&cache->model->states[array / 2], array % 2);
  *token_bytes = l.token_bytes;
  return head_data(cache->layers[array / 2].arrays[array % 2], l, slot, head) + (size_t)first_token * l.token_bytes;
}

/* Makes zeros of the tokens [start, end) of a slot, and gives back the memory that only they have. */
static void clear_tokens(const rl_cache* cache, int slot, int start, int end) {
  for (int i = 0; i < 2 * cache->model->num_layers && start < end; i++) {
    const layer_state* state = &cache->model->states[i / 2];
    if (state->is_recurrent) continue;
    head_layout l = layout_of(state, i % 2);
    for (int head = 0; head < l.num_heads; head++)
      memory_clear(head_data(cache->layers[i / 2].arrays[i % 2], l, slot, head) + (size_t)start * l.token_bytes, (size_t)(end - start) * l.token_bytes);
  }
}

/* An array with address space for what was reserved, or else for what is asked for, with what the slots hold. */
static int32_t make_sparse(rl_cache* cache, int i, int slots, int capacity) {
  layer_state state = cache->model->states[i / 2];
  mlx_array *own = &cache->layers[i / 2].arrays[i % 2], fresh = mlx_array_empty;
  head_layout l = layout_of(&state, i % 2);
  if (slots <= cache->reserved_slots && capacity <= cache->reserved_capacity)
    fresh = array_sparse(cache_shape(&state, i % 2, cache->reserved_slots, cache->reserved_capacity), 4, state.dtypes[i % 2]);
  if (fresh.ctx == NULL) fresh = array_sparse(cache_shape(&state, i % 2, slots, capacity), 4, state.dtypes[i % 2]);
  if (fresh.ctx == NULL) return rl_fail(RL_ERR_MEMORY, "Cannot get memory for %d slots of %d tokens", slots, capacity);
  for (int slot = 0; slot < min_int(slots, cache->num_slots) && own->ctx != NULL; slot++)
    for (int head = 0; head < l.num_heads; head++)
      memcpy(head_data(fresh, l, slot, head), head_data(*own, l, slot, head),
             (size_t)min_int(cache->lengths[slot], capacity) * l.token_bytes);
  if (own->ctx != NULL) mlx_array_free(*own);
  *own = fresh;
  return RL_OK;
}

/* Most often there is address space enough, and nothing to do. */
int32_t sparse_resize(rl_cache* cache, int i, int slots, int capacity) {
  mlx_array own = cache->layers[i / 2].arrays[i % 2];
  bool fits = own.ctx != NULL && slots <= mlx_array_dim(own, 0) && capacity <= mlx_array_dim(own, 2);
  return fits ? RL_OK : make_sparse(cache, i, slots, capacity);
}

/* In so many tokens of a head there is a page of memory at least. */
enum { PAGED_TOKENS = 64 };

/* Makes zeros of what a slot holds; its memory goes back, up to the end of every head's last page. */
void sparse_release(rl_cache* cache, int slot) {
  clear_tokens(cache, slot, 0, min_int((cache->lengths[slot] + PAGED_TOKENS - 1) / PAGED_TOKENS * PAGED_TOKENS, cache->capacity));
  cache->lengths[slot] = 0;
}

/* Head by head, so that what is moved is there twice for one head only. */
void sparse_move(rl_cache* cache, int i, int from, int to, int length) {
  head_layout l = layout_of(&cache->model->states[i / 2], i % 2);
  mlx_array own = cache->layers[i / 2].arrays[i % 2];
  for (int head = 0; head < l.num_heads; head++) {
    size_t num_bytes = (size_t)length * l.token_bytes;
    memcpy(head_data(own, l, to, head), head_data(own, l, from, head), num_bytes);
    memory_clear(head_data(own, l, from, head), num_bytes);
  }
}

/* What slots that stay hold beyond the new capacity, and all that slots hold which go. */
void sparse_shrink(rl_cache* cache, int slots, int capacity) {
  for (int slot = 0; slot < cache->num_slots; slot++) {
    if (slot >= slots) sparse_release(cache, slot);
    else clear_tokens(cache, slot, capacity, cache->lengths[slot]);
  }
}
