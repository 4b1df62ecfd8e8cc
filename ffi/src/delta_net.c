#include "delta_net.h"

#include "cpu/sgemm.h"
#include "cache.h"

/* Above this many tokens the products over chunks are faster than a loop: on a CPU they have to make up for more arithmetic (measured: equal at
 * about 100 tokens), on a GPU for a few launches only. Up to here a row's bits do not depend on how its tokens are cut. */
static int max_steps(const rl_model* model) { return model->is_gpu ? 8 : 64; }

static bool is_batch_invariant(void) {
#ifdef ROWLOCK_OWN_SGEMM
  return sgemm_is_batch_invariant();
#else
  return false;
#endif
}

/* What the run's slots hold, but zeros for rows that begin: what a slot held before must not reach a new row, and NaN times 0 is NaN. */
static mlx_array run_state(forward* f, int layer, int which, const run* r) {
  scope* s = f->s;
  mlx_array state = op_slice(s, f->cache->layers[layer].arrays[which], 0, r->first_slot, r->first_slot + r->num_rows);
  bool continues[r->num_rows], any_begins = false;
  for (int i = 0; i < r->num_rows; i++) {
    continues[i] = f->rows[r->first_row + i].offset > 0;
    any_begins = any_begins || !continues[i];
  }
  if (s->status != RL_OK || !any_begins) return state;
  mlx_array mask = scope_keep(s, mlx_array_new_data(continues, (const int[]){r->num_rows, 1, 1, 1}, 4, MLX_BOOL));
  return op_where(s, mask, state, op_scalar(s, 0, MLX_FLOAT32));
}

static void store_state(forward* f, int layer, int which, const run* r, mlx_array state) {
  scope* s = f->s;
  mlx_array* own = &f->cache->layers[layer].arrays[which];
  mlx_array updated = op_update(s, *own, state, SHAPE(r->first_slot, 0, 0, 0));
  if (s->status == RL_OK) cache_replace(own, updated);
}

mlx_array causal_convolution(forward* f, int layer, mlx_array x, mlx_array kernel) {
  scope* s = f->s;
  if (s->status != RL_OK) return mlx_array_empty;
  int width = mlx_array_dim(kernel, 0), channels = mlx_array_dim(kernel, 1);
  mlx_array parts[f->num_runs];
  for (int i = 0; i < f->num_runs; i++) {
    const run* r = &f->runs[i];
    int n = r->num_rows, t = r->count;
    mlx_array newest = op_reshape(s, op_slice(s, x, 0, r->first_token, r->first_token + n * t), SHAPE(n, 1, t, channels));
    mlx_array inputs = op_concatenate(s, (const mlx_array[]){run_state(f, layer, STATE_CONVOLUTION, r), newest}, 2, 2);
    mlx_array sum = op_multiply(s, op_slice(s, inputs, 2, 0, t), op_slice(s, kernel, 0, 0, 1));
    for (int tap = 1; tap < width; tap++)
      sum = op_add(s, sum, op_multiply(s, op_slice(s, inputs, 2, tap, tap + t), op_slice(s, kernel, 0, tap, tap + 1)));
    store_state(f, layer, STATE_CONVOLUTION, r, op_slice(s, inputs, 2, t, t + width - 1));
    if (r->is_verify) {
      snapshot* taken = cache_new_snapshot(s, f->cache, layer, r);
      if (taken != NULL) taken->inputs = scope_release(s, inputs);
    }
    parts[i] = op_reshape(s, sum, SHAPE(n * t, channels));
  }
  return op_concatenate(s, parts, f->num_runs, 0);
}

static snapshot* find_snapshot(rl_cache* cache, int layer, const run* r) {
  for (int i = cache->num_snapshots - 1; i >= 0; i--)
    if (cache->snapshots[i].layer == layer && cache->snapshots[i].first_slot == r->first_slot) return &cache->snapshots[i];
  return NULL;
}

static mlx_array run_part(scope* s, mlx_array x, const run* r, const int* shape, int num_dims) {
  return op_reshape(s, op_slice(s, x, 0, r->first_token, r->first_token + r->num_rows * r->count), shape, num_dims);
}

static mlx_array apply_rule(forward* f, int layer, const run* r, const delta_rule* d) {
  scope* s = f->s;
  int n = r->num_rows, t = r->count, heads = mlx_array_dim(d->keys, 1), key_dim = mlx_array_dim(d->keys, 2);
  int value_heads = mlx_array_dim(d->values, 1), value_dim = mlx_array_dim(d->values, 2), group = value_heads / heads;
  delta_run part = {.num_rows = n, .count = t, .num_key_heads = heads, .group = group, .key_dim = key_dim, .value_dim = value_dim};
  part.queries = run_part(s, d->queries, r, SHAPE(n, t, heads, key_dim));
  part.keys = run_part(s, d->keys, r, SHAPE(n, t, heads, key_dim));
  part.values = run_part(s, d->values, r, SHAPE(n, t, heads, group, value_dim));
  part.log_decays = run_part(s, d->log_decays, r, SHAPE(n, t, heads, group));
  part.betas = run_part(s, d->betas, r, SHAPE(n, t, heads, group));
  mlx_array state = op_reshape(s, run_state(f, layer, STATE_RECURRENT, r), SHAPE(n, heads, group * value_dim, key_dim));
  mlx_array states[VERIFY_MAX_TOKENS], y;
  if (t > max_steps(f->model) && !r->is_verify && !is_batch_invariant()) y = delta_rule_chunks(s, &part, &state);
  else y = delta_rule_steps(s, &part, &state, r->is_verify ? states : NULL);
  store_state(f, layer, STATE_RECURRENT, r, op_reshape(s, state, SHAPE(n, value_heads, value_dim, key_dim)));
  snapshot* taken = r->is_verify && s->status == RL_OK ? find_snapshot(f->cache, layer, r) : NULL;
  for (int i = 0; taken != NULL && i < t; i++)
    taken->states[i] = scope_release(s, op_reshape(s, states[i], SHAPE(n, value_heads, value_dim, key_dim)));
  return op_reshape(s, y, SHAPE(n * t, value_heads, value_dim));
}

mlx_array gated_delta_rule(forward* f, int layer, const delta_rule* d) {
  if (f->s->status != RL_OK) return mlx_array_empty;
  mlx_array parts[f->num_runs];
  for (int i = 0; i < f->num_runs; i++) parts[i] = apply_rule(f, layer, &f->runs[i], d);
  return op_concatenate(f->s, parts, f->num_runs, 0);
}
