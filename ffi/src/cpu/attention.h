/* Attention of a step's ragged rows over the slots of a KV cache, as kernels for op_host. All are float32, but for a cache of 8 bits: there a
 * head of a token is `head dim` signed bytes and the float32 scale that they are multiplied with, KV_SCALE_BYTES more. */
#ifndef ROWLOCK_CPU_ATTENTION_H
#define ROWLOCK_CPU_ATTENTION_H

#include <stdbool.h>

#include "host_op.h"

/* The kernel keeps a vector of queries for each feature on its stack. */
enum { HOST_MAX_HEAD_DIM = 512, KV_SCALE_BYTES = 4 };

/* Writes x [tokens, first_head + kv heads, head dim] into a cache [slots, kv heads, capacity, head dim] at each token's slot and position.
 * Inputs: cache, x, slots [tokens], positions [tokens]. For op_host_in_place. */
typedef struct write_cache_params {
  int first_head; /* of x */
  bool is_8_bit;
} write_cache_params;
void host_write_cache(const void* params, const host_tensor* inputs, void* output);

typedef struct attention_params {
  float scale;
  int num_heads; /* of q; more may follow in the tensor */
  bool is_8_bit;
  int window; /* > 0: a token sees only so many positions up to its window_from */
} attention_params;

/* Inputs: q [tokens, at least num_heads, head dim], keys, values [slots, kv heads, capacity, head dim], then int32 [tokens]: slots, last position that is
 * seen, position that a window ends at. Output [tokens, heads * head dim]. Softmax is taken over blocks of keys with fixed borders (Milakov
 * & Gimelshein, arXiv 1805.02867), so that a token's result depends on its row alone, not on how its prompt was cut. */
void host_attention(const void* params, const host_tensor* inputs, void* output);

#endif
