/* The weights of models of Llama's shape, and what they do alike: loading, token ids to hidden
 * vectors, hidden vectors to logits. */
#ifndef ROWLOCK_DENSE_DECODER_H
#define ROWLOCK_DENSE_DECODER_H

#include "decoder_block.h"

/* One layer. */
typedef struct dense_block {
  attention_block attention;
  mlp_block mlp;
  bool lacks_positions;
} dense_block;

typedef struct dense_decoder {
  decoder d;
  rope rope;
  dense_block* blocks;
  int num_blocks; /* loaded */
} dense_decoder;

/* Loads everything but the inside of the blocks, which `load_block` does. For an architecture's `load`: errors stick in `w`. */
dense_decoder* dense_decoder_load(weights* w, void (*load_block)(weights* w, const decoder* d, dense_block* b, int layer));

/* Which projections of a block have biases. */
typedef struct dense_biases {
  bool qkv, output, mlp;
} dense_biases;

/* Loads Llama's block: two norms, queries, keys and values apart, gate and up apart. For a `load_block`. */
void dense_block_load(weights* w, const decoder* d, dense_block* b, int layer, dense_biases has);

/* An architecture's functions. */
void dense_decoder_unload(void* model);
mlx_array dense_decoder_hidden(forward* f, const void* model);
mlx_array dense_decoder_embed(forward* f, const void* model, mlx_array token_ids);
mlx_array dense_decoder_logits(forward* f, const void* model, mlx_array hidden);

#endif
