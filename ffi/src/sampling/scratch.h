/* Memory that the rows of one thread take turns in: it grows with the vocabulary and stays, so that a step allocates nothing. */
#ifndef ROWLOCK_SCRATCH_H
#define ROWLOCK_SCRATCH_H

#include <stdint.h>

enum {
  BLOCK = 64,        /* tokens that are skipped or looked at together */
  NUM_BUCKETS = 512, /* of the first, linear step of a selection */
};

typedef struct sampler_scratch {
  int32_t capacity;  /* floats in each of the arrays by token; a multiple of BLOCK */
  float* logits;     /* processed copy of a row that has a mask, edits or values that are no numbers */
  float* block_best; /* largest logit of each block of the row */
  float* values;     /* survivors: their logits */
  int32_t* ids;      /* survivors: their tokens, ascending */
  float* keys;       /* what a selection orders by */
  float* weights;    /* what a selection adds up */
  int32_t* members;  /* indices of the bucket that a selection looks into */
  double buckets[NUM_BUCKETS];
} sampler_scratch;

/* The calling thread's scratch with room for `vocabulary` tokens; NULL when memory cannot be had. */
sampler_scratch* scratch_of_thread(int32_t vocabulary);

static inline int32_t num_blocks_of(int32_t count) {
  return (count + BLOCK - 1) / BLOCK;
}

#endif
