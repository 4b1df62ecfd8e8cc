#include "scratch.h"

#include <pthread.h>
#include <stdlib.h>

static _Thread_local sampler_scratch* thread_scratch;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_status;

static void release(void* value) {
  sampler_scratch* scratch = value;
  free(scratch->logits);
  free(scratch);
}

static void make_key(void) { key_status = pthread_key_create(&key, release); }

/* The thread's own, which goes when the thread ends; NULL when memory cannot be had. */
static sampler_scratch* new_scratch(void) {
  pthread_once(&once, make_key);
  sampler_scratch* scratch = key_status == 0 ? calloc(1, sizeof *scratch) : NULL;
  if (scratch == NULL || pthread_setspecific(key, scratch) == 0) return scratch;
  free(scratch);
  return NULL;
}

sampler_scratch* scratch_of_thread(int32_t vocabulary) {
  if (thread_scratch == NULL) thread_scratch = new_scratch();
  sampler_scratch* scratch = thread_scratch;
  if (scratch == NULL || vocabulary <= scratch->capacity) return scratch;
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
