/* Weighted selection: where the shortest prefix in ascending order of keys ends whose weights reach a target. Nothing is sorted. */
#ifndef ROWLOCK_SELECTION_H
#define ROWLOCK_SELECTION_H

#include <stdint.h>

#include "scratch.h"

/* The prefix is every item whose key is below `key`, and the first `num_equal` in index order of those whose key is `key`. */
typedef struct selection_cut {
  float key;
  int32_t num_equal;
} selection_cut;

/* `count` >= 1 keys, none of them NaN; items with equal keys are in index order. `weights` >= 0, NULL counts every item as 1.
 * At least one item is in the prefix; all are when the weights never reach the target. Uses scratch->members and ->buckets. */
selection_cut select_prefix(const float* keys, const float* weights, int32_t count, double target, sampler_scratch* scratch);

#endif
