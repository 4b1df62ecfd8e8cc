/* Qwen3.5's recurrent layers: gated delta nets (Yang et al., arXiv 2412.06464) with a causal convolution before and a gated norm behind. */
#ifndef ROWLOCK_QWEN3_5_DELTA_NET_H
#define ROWLOCK_QWEN3_5_DELTA_NET_H

#include "../layers.h"
#include "../model.h"

/* What all delta nets of a model have in common. */
typedef struct delta_net_sizes {
  int num_key_heads, num_value_heads, key_dim, value_dim, num_taps;
  float eps;
  /* As llama.cpp's converter stores them: decay rates as they are used, and value heads in turns (head v belongs to key head v modulo
   * num_key_heads), where Hugging Face's layout has neighbours share a key head. */
  bool is_gguf;
} delta_net_sizes;

typedef struct delta_net {
  linear qkv_z, beta_decay, output;
  mlx_array kernel;                /* [taps, channels] */
  mlx_array decay_rate, time_bias; /* [value heads] */
  mlx_array norm;                  /* [value dim] */
} delta_net;

/* Reads and checks the linear_* keys of the config. */
delta_net_sizes delta_net_read_sizes(weights* w);

/* `module` is the name up to "linear_attn". */
delta_net delta_net_load(weights* w, const delta_net_sizes* z, const char* module, int hidden);
void delta_net_free(delta_net* d);

/* What a layer of this kind keeps in the cache. */
layer_state delta_net_state(const delta_net_sizes* z);

/* x [tokens, hidden] to the same. */
mlx_array delta_net_apply(forward* f, const delta_net_sizes* z, const delta_net* d, int layer, mlx_array x);

#endif
