/* The halves of a decoder block as kernels for op_host_block: a step of few rows spends more time between operations than it takes to fuse them.
 * They run the same kernels as the operations one by one, in the same order, and give the same bits. All float32. */
#ifndef ROWLOCK_CPU_DECODER_BLOCK_H
#define ROWLOCK_CPU_DECODER_BLOCK_H

#include "attention.h"
#include "product.h"

enum { HOST_LINEAR_PARTS = 3, HOST_NONE = -1 };

/* Rows of several matrices under each other. `weights`, `bias` and the like are indices of inputs, behind those that each half begins with. */
typedef struct host_linear {
  product_weights parts[HOST_LINEAR_PARTS];
  int num_parts;
  int weights; /* input of the first part, the others follow */
  int bias;    /* input [out], or HOST_NONE */
} host_linear;

/* x + after_norm(output · attention(rope(qk_norm(qkv · norm(x))))). */
typedef struct attention_block_params {
  float eps;
  attention_params attention;
  int num_kv_heads, head_dim, rope_dims;
  int scratch, norm;                       /* inputs; scratch is memory of attention_block_scratch_bytes */
  int qk_norm, after_norm, cosines, sines; /* inputs or HOST_NONE; qk_norm [heads + kv heads, head dim] */
  host_linear qkv, output;
} attention_block_params;

/* x [tokens, hidden], keys and values as in host_attention and changed where they lie, then int32 [tokens]. */
enum { INPUT_X, INPUT_KEYS, INPUT_VALUES, INPUT_SLOTS, INPUT_POSITIONS, INPUT_LAST_SEEN, INPUT_WINDOW_FROM, NUM_ATTENTION_INPUTS };
void host_attention_block(const void* params, const host_tensor* inputs, void* output);
size_t attention_block_scratch_bytes(const attention_block_params* p, int num_tokens);

/* x + after_norm(down · gated(gate_up · norm(x))), the gate bent by SiLU or by GELU. */
typedef struct mlp_block_params {
  float eps;
  bool is_gelu;
  int scratch, norm; /* inputs; scratch is memory of mlp_block_scratch_bytes */
  int after_norm;    /* input or HOST_NONE */
  host_linear gate_up, down;
} mlp_block_params;

/* x [tokens, hidden]. */
enum { NUM_MLP_INPUTS = INPUT_X + 1 };
void host_mlp_block(const void* params, const host_tensor* inputs, void* output);
size_t mlp_block_scratch_bytes(const mlp_block_params* p, int num_tokens);

#endif
