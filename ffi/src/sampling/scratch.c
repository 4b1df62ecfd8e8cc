#include "scratch.h"

#include <stdlib.h>

static _Thread_local sampler_scratch thread_scratch;

sampler_scratch* scratch_of_thread(int32_t vocabulary) {
  sampler_scratch* scratch = &thread_scratch;
  if (vocabulary <= scratch->capacity) return scratch;
  size_t capacity = (size_t)num_blocks_of(vocabulary) * BLOCK;
  size_t num_blocks = capacity / BLOCK;
  /* One allocation: five arrays by token that only rows with filters touch, and one by block. */
  float* memory = malloc((6 * capacity + num_blocks) * sizeof(float));
  if (memory == NULL) return NULL;
  free(scratch->logits);
  scratch->capacity = (int32_t)capacity;
  scratch->logits = memory;
  scratch->values = memory + capacity;
  scratch->keys = memory + 2 * capacity;
  scratch->weights = memory + 3 * capacity;
  scratch->ids = (int32_t*)(memory + 4 * capacity);
  scratch->members = (int32_t*)(memory + 5 * capacity);
  scratch->block_best = memory + 6 * capacity;
  return scratch;
}
