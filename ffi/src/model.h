/* A loaded checkpoint and what an architecture has to offer. */
#ifndef ROWLOCK_MODEL_H
#define ROWLOCK_MODEL_H

#include <pthread.h>

#include "forward.h"
#include "weights.h"

/* The two arrays that a layer keeps: keys and values [slots, kv heads, capacity, head dim], or the last inputs of a causal convolution
 * [slots, 1, kernel - 1, channels] and the state of a recurrence [slots, heads, …, …]. */
typedef struct layer_state {
  bool is_recurrent;
  int shapes[2][4]; /* the cache fills in slots and capacity */
  mlx_dtype dtypes[2];
} layer_state;

enum { STATE_KEYS = 0, STATE_VALUES = 1, STATE_CONVOLUTION = 0, STATE_RECURRENT = 1 };

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
  /* Token ids to [tokens, hidden], as `hidden` begins; drafters share it. NULL: the architecture takes no drafters. */
  mlx_array (*embed)(forward* f, const void* weights, mlx_array token_ids);
  /* Changes what layer `layer` keeps; NULL: keys and values in all layers. */
  void (*state)(const void* weights, int layer, layer_state* state);
} architecture;

struct rl_model {
  const architecture* architecture;
  void* weights;
  pthread_t owner;
  mlx_stream stream;
  bool is_gpu;
  bool uses_host_ops; /* kernels of our own take the place of MLX's on a CPU */
  int num_layers, num_kv_heads, head_dim, hidden_size, vocab_size;
  uint64_t weight_bytes;
  mlx_dtype dtype; /* of activations and KV */
  bool kv_is_8_bit; /* keys and values are bytes with scales, see cpu/attention.h */
  layer_state* states; /* of every layer */
  /* Which hidden rows a forward leaves for drafters, see rl_model_capture. */
  int32_t capture_kind;
  int* capture_layers;
  int num_capture_layers;
};

/* Fills `states` once the sizes and weights are there. */
int32_t model_plan_states(rl_model* model);

/* Bytes that one slot keeps: of each token, and beside them. */
int64_t model_kv_bytes(const rl_model* model);
int64_t model_recurrent_bytes(const rl_model* model);

/* RL_ERR_THREAD with a text when the calling thread does not own the model. */
int32_t model_check_thread(const rl_model* model);

extern const architecture gemma3_text, llama, phi3, qwen2, qwen3, qwen3_5, qwen3_moe, smollm3;

#endif
