/* The halves of a decoder block as kernels for op_host_block: a step of few rows spends more time between operations than it takes to fuse them.
 * They run the same kernels as the operations one by one, in the same order, and give the same bits. All float32. */
#ifndef ROWLOCK_CPU_DECODER_BLOCK_H
#define ROWLOCK_CPU_DECODER_BLOCK_H

#include "attention.h"
#include "product.h"

enum { HOST_LINEAR_PARTS = 3 };

/* Rows of several matrices under each other. */
typedef struct host_linear {
  product_weights parts[HOST_LINEAR_PARTS];
  int num_parts;
  const float* bias; /* [out], or NULL */
} host_linear;

/* Norms and the like have data NULL where a layer has none. What a block's parameters point to stays where it is as long as the model does. */

/* x + after_norm(output · attention(rope(qk_norm(qkv · norm(x))))). */
typedef struct attention_block_params {
  float eps;
  attention_params attention;
  int num_kv_heads, head_dim;
  host_tensor norm, qk_norm, after_norm; /* qk_norm [heads + kv heads, head dim] */
  host_linear qkv, output;
} attention_block_params;

/* x [tokens, hidden], keys and values as in host_attention and changed where they lie, then int32 [tokens], memory of
 * attention_block_scratch_bytes, and the tables of host_rope unless the layer has no positions. */
enum {
  INPUT_X,
  INPUT_KEYS,
  INPUT_VALUES,
  INPUT_SLOTS,
  INPUT_POSITIONS,
  INPUT_LAST_SEEN,
  INPUT_WINDOW_FROM,
  INPUT_ATTENTION_SCRATCH,
  INPUT_COSINES,
  INPUT_SINES,
  NUM_ATTENTION_INPUTS
};
void host_attention_block(const void* params, const host_tensor* inputs, void* output);
size_t attention_block_scratch_bytes(const attention_block_params* p, int num_tokens);

/* x + after_norm(down · gated(gate_up · norm(x))), the gate bent by SiLU or by GELU. */
typedef struct mlp_block_params {
  float eps;
  bool is_gelu;
  host_tensor norm, after_norm;
  host_linear gate_up, down;
} mlp_block_params;

/* x [tokens, hidden], memory of mlp_block_scratch_bytes. */
enum { INPUT_MLP_SCRATCH = 1, NUM_MLP_INPUTS };
void host_mlp_block(const void* params, const host_tensor* inputs, void* output);
size_t mlp_block_scratch_bytes(const mlp_block_params* p, int num_tokens);

#endif
