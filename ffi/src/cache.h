/* KV of all slots of one model. */
#ifndef ROWLOCK_CACHE_H
#define ROWLOCK_CACHE_H

#include "model.h"

struct rl_cache {
  rl_model* model;
  int num_slots, capacity;
  mlx_array *keys, *values; /* a layer: [slots, kv heads, capacity, head dim]; ctx NULL while there are no slots */
};

/* Replaces a layer's array and drops the old handle, so that the update can happen in place. */
void cache_replace(mlx_array* own, mlx_array updated);

#endif
