/* Undoing verified tokens in recurrent layers: a verification keeps the state after each token, rl_cache_keep takes one of them. */
#include <stdlib.h>

#include "cache.h"

snapshot* cache_new_snapshot(scope* s, rl_cache* cache, int layer, const run* r) {
  if (s->status != RL_OK) return NULL;
  if (cache->num_snapshots == cache->max_snapshots) {
    int max_snapshots = cache->max_snapshots == 0 ? cache->model->num_layers : 2 * cache->max_snapshots;
    snapshot* grown = realloc(cache->snapshots, (size_t)max_snapshots * sizeof *grown);
    if (grown == NULL) return scope_fail(s, RL_ERR_MEMORY, "Out of memory for the states of %d layers", max_snapshots), NULL;
    cache->snapshots = grown, cache->max_snapshots = max_snapshots;
  }
  snapshot* taken = &cache->snapshots[cache->num_snapshots++];
  *taken = (snapshot){.layer = layer, .first_slot = r->first_slot, .num_rows = r->num_rows, .count = r->count};
  return taken;
}

void cache_drop_snapshots(rl_cache* cache) {
  for (int i = 0; i < cache->num_snapshots; i++) {
    snapshot* taken = &cache->snapshots[i];
    array_free(&taken->inputs);
    for (int t = 0; t < taken->count; t++) array_free(&taken->states[t]);
  }
  cache->num_snapshots = 0;
}

static bool holds(const snapshot* taken, int slot) { return slot >= taken->first_slot && slot < taken->first_slot + taken->num_rows; }

static int32_t check_kept(const rl_cache* cache, const int32_t* slots, const int32_t* kept, int num_rows) {
  for (int i = 0; i < num_rows; i++) {
    const snapshot* found = NULL;
    for (int j = 0; j < cache->num_snapshots && found == NULL; j++)
      if (holds(&cache->snapshots[j], slots[i])) found = &cache->snapshots[j];
    if (found == NULL)
      return rl_fail(RL_ERR_ARGUMENT, "rl_cache_keep: slot %d was not verified by the last forward", slots[i]);
    if (kept[i] < 1 || kept[i] > found->count)
      return rl_fail(RL_ERR_ARGUMENT, "rl_cache_keep: slot %d keeps %d tokens, expected 1 … %d", slots[i], kept[i], found->count);
  }
  return RL_OK;
}

/* Tokens that a slot keeps; all of them when the caller does not name it. */
static int num_kept(const snapshot* taken, int slot, const int32_t* slots, const int32_t* kept, int num_rows) {
  for (int i = 0; i < num_rows; i++)
    if (slots[i] == slot) return kept[i];
  return taken->count;
}

/* Both arrays of one layer, for the rows of one run. */
static void restore(scope* s, rl_cache* cache, const snapshot* taken, const int32_t* slots, const int32_t* kept, int num_rows) {
  int n = taken->num_rows, num_undone = 0, num_inputs = mlx_array_dim(taken->inputs, 2) - taken->count;
  mlx_array inputs[n], states[n];
  for (int i = 0; i < n; i++) {
    int count = num_kept(taken, taken->first_slot + i, slots, kept, num_rows);
    num_undone += count < taken->count;
    inputs[i] = op_slice(s, op_slice(s, taken->inputs, 0, i, i + 1), 2, count, count + num_inputs);
    states[i] = op_slice(s, taken->states[count - 1], 0, i, i + 1);
  }
  if (num_undone == 0) return;
  layer_cache* own = &cache->layers[taken->layer];
  mlx_array parts[] = {op_concatenate(s, inputs, n, 0), op_concatenate(s, states, n, 0)};
  for (int i = 0; i < 2; i++) {
    mlx_array updated = op_update(s, own->arrays[i], parts[i], SHAPE(taken->first_slot, 0, 0, 0));
    if (s->status == RL_OK) cache_replace(&own->arrays[i], updated);
  }
}

int32_t rl_cache_keep(rl_cache* cache, const int32_t* slots, const int32_t* kept, int32_t num_rows) {
  if (cache == NULL || slots == NULL || kept == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_keep: no argument may be NULL");
  if (num_rows < 1) return rl_fail(RL_ERR_ARGUMENT, "rl_cache_keep: %d rows, expected 1 or more", num_rows);
  int32_t status = model_check_thread(cache->model);
  if (status != RL_OK) return status;
  if (model_recurrent_bytes(cache->model) == 0) return RL_OK; /* keys and values are undone by the row's length alone */
  status = check_kept(cache, slots, kept, num_rows);
  if (status != RL_OK) return status;
  scope s = scope_open(cache->model->stream);
  for (int i = 0; i < cache->num_snapshots; i++) restore(&s, cache, &cache->snapshots[i], slots, kept, num_rows);
  scope_close(&s);
  cache_drop_snapshots(cache);
  if (s.status != RL_OK) return s.status;
  mlx_vector_array roots = mlx_vector_array_new();
  cache_append_roots(cache, roots);
  scope_check(&s, mlx_async_eval(roots));
  mlx_vector_array_free(roots);
  return s.status;
}
