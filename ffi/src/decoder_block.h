/* The two halves of a pre-norm decoder block, as all attention-only architectures here have them. What a model has not stays empty. On a CPU halves
 * that follow each other are one operation (cpu/decoder_block.h), elsewhere they are made of MLX's: the same numbers either way, as far as the
 * kernels are. */
#ifndef ROWLOCK_DECODER_BLOCK_H
#define ROWLOCK_DECODER_BLOCK_H

#include "cpu/decoder_block.h"
#include "decoder.h"

/* x + after_norm(output · attention(rope(qk_norm(qkv · norm(x))))). */
typedef struct attention_block {
  mlx_array norm, qk_norm, after_norm; /* qk_norm as `load_qk_norm` gives it */
  linear qkv, output;
  float scale; /* of the scores; 0: 1 / sqrt(head dim) */
  int window;  /* 0: full attention */
  bool is_prepared, is_host; /* by the first step; is_host: one operation computes it, from `host` */
  attention_block_params host;
} attention_block;

/* x + after_norm(down · gated(gate_up · norm(x))). */
typedef struct mlp_block {
  mlx_array norm, after_norm;
  linear gate_up, down;
  bool is_gelu; /* the gate's function; else SiLU */
  bool is_prepared, is_host;
  mlp_block_params host;
} mlp_block;

/* x [tokens, hidden] to the same; on a CPU x itself may become the result. `tables` NULL: a layer without positions. */
mlx_array attention_block_apply(forward* f, const decoder* d, attention_block* b, int layer, const rope_tables* tables, mlx_array x);
mlx_array mlp_block_apply(forward* f, float eps, mlp_block* b, mlx_array x);

void attention_block_free(attention_block* b);
void mlp_block_free(mlp_block* b);

#endif
