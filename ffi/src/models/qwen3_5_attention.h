/* Gated attention with partial rotary positions: Qwen3.5's full attention layers and the layer of its MTP head. */
#ifndef ROWLOCK_QWEN3_5_ATTENTION_H
#define ROWLOCK_QWEN3_5_ATTENTION_H

#include "../layers.h"

typedef struct gated_attention {
  int num_heads, num_kv_heads, head_dim, rotary_dims;
  float eps;
  linear qkv, output; /* a query head's rows are its query, then its gate */
  mlx_array query_norm, key_norm;
} gated_attention;

/* `module` is the name up to "self_attn"; norms are stored as their distance from `norm_offset`. */
gated_attention gated_attention_load(weights* w, const char* module, int hidden, float norm_offset);
void gated_attention_free(gated_attention* a);

/* x [tokens, hidden] to the same. */
mlx_array gated_attention_apply(forward* f, const gated_attention* a, int layer, const rope_tables* tables, mlx_array x);

#endif
