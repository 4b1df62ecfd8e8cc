/* A loaded checkpoint and what an architecture has to offer. */
#ifndef ROWLOCK_MODEL_H
#define ROWLOCK_MODEL_H

#include <pthread.h>

#include "forward.h"
#include "weights.h"

/* An architecture: one file in models/, named after its model_type. */
typedef struct architecture {
  const char* model_type;
  /* Takes the weights; errors stick in `w` and in its config. The result is freed with `unload`, also after an error. */
  void* (*load)(weights* w);
  void (*unload)(void* weights);
  /* The layers over the step's packed tokens: embedding to final norm, [tokens, hidden]. */
  mlx_array (*hidden)(forward* f, const void* weights);
  /* Logits of some hidden rows: [rows, hidden] to [rows, vocabulary]. */
  mlx_array (*logits)(forward* f, const void* weights, mlx_array hidden);
} architecture;

struct rl_model {
  const architecture* architecture;
  void* weights;
  pthread_t owner;
  mlx_stream stream;
  bool is_gpu;
  int num_layers, num_kv_heads, head_dim, hidden_size, vocab_size;
  uint64_t weight_bytes;
  mlx_dtype dtype; /* of activations and KV */
};

/* RL_ERR_THREAD with a text when the calling thread does not own the model. */
int32_t model_check_thread(const rl_model* model);

extern const architecture llama;

#endif
