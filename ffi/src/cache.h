/* What all layers keep for all slots of one model. */
#ifndef ROWLOCK_CACHE_H
#define ROWLOCK_CACHE_H

#include "model.h"

/* A layer's two arrays as its layer_state describes them; ctx NULL while there are no slots. */
typedef struct layer_cache {
  mlx_array arrays[2];
} layer_cache;

enum { VERIFY_MAX_TOKENS = 64 };

/* What one recurrent layer went through in one run of the last verification. */
typedef struct snapshot {
  int layer, first_slot, num_rows, count;
  mlx_array inputs; /* of the convolution: [rows, 1, kernel - 1 + count, channels] */
  mlx_array states[VERIFY_MAX_TOKENS]; /* after each token: [rows, …] */
} snapshot;

struct rl_cache {
  rl_model* model;
  int num_slots, capacity;
  int reserved_slots, reserved_capacity; /* what a sparse cache takes address space for */
  int* lengths; /* of every slot: tokens that were written since it began, at least; what lies behind takes no memory where `is_sparse` */
  bool is_sparse;
  layer_cache* layers;
  snapshot* snapshots;
  int num_snapshots, max_snapshots;
};

/* Whether caches of this model (or drafter) will be sparse. */
bool cache_is_sparse(const rl_model* model);

/* Notes that a step or a page writes the tokens [start, end) of a slot. One that begins anew gives its old row's memory back first, and waits for
 * what is in flight. */
void cache_write(rl_cache* cache, int slot, int start, int end);

/* Waits for what is in flight before a cache is read or changed behind MLX's back. */
void cache_settle(const rl_cache* cache);

/* Replaces a layer's array and drops the old handle, so that the update can happen in place. */
void cache_replace(mlx_array* own, mlx_array updated);

/* Shape of one of a layer's arrays for so many slots of so many tokens, in `state`. */
const int* cache_shape(layer_state* state, int which, int slots, int capacity);

/* Adds all arrays of the cache to what is evaluated. */
void cache_append_roots(const rl_cache* cache, mlx_vector_array roots);

/* A snapshot to fill, or NULL with the scope's error. */
snapshot* cache_new_snapshot(scope* s, rl_cache* cache, int layer, const run* r);
void cache_drop_snapshots(rl_cache* cache);

#endif
