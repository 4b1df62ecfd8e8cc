/* The parts that architectures are made of. `x` is [tokens, features]: the packed tokens of all rows of a step. */
#ifndef ROWLOCK_LAYERS_H
#define ROWLOCK_LAYERS_H

#include "forward.h"
#include "weights.h"

mlx_array linear_apply(scope* s, const linear* l, mlx_array x);

/* The same with the matrices of a stack that are chosen for each token: x [tokens, 1 or choices, in], `experts` [tokens, choices],
 * the result [tokens, choices, out]. */
mlx_array experts_apply(forward* f, const linear* l, mlx_array x, mlx_array experts);

/* One row of the table for each id, in the embedding's type: [tokens] to [tokens, features]. */
mlx_array embedding_apply(scope* s, const embedding* e, mlx_array token_ids);

mlx_array rms_norm(scope* s, mlx_array x, mlx_array weight, float eps);

/* silu(gate) * up of a fused product [tokens, …, gate ‖ up]. */
mlx_array swiglu(scope* s, mlx_array gate_up);

/* gelu(gate) * up in its tanh approximation (Hendrycks & Gimpel, arXiv 1606.08415). */
mlx_array geglu(scope* s, mlx_array gate_up);

/* Rotary position embedding, half-split pairs (Su et al., RoFormer, arXiv 2104.09864). */
typedef struct rope {
  int dims;             /* rotated features of a head */
  float* inv_frequency; /* [dims / 2], scaling included */
  float magnitude;      /* of the rotated features: 1, but for scalings that make attention sharper over long contexts */
} rope;

/* Reads rope_theta and the rope_* scaling keys of the config. `rotary_dims` there, if it is less, takes the place of `dims`. */
rope rope_load(weights* w, int dims);
/* Without any scaling. */
rope rope_plain(weights* w, int dims, double theta);
void rope_free(rope* r);

/* Angles of a step's tokens: made once, used by every layer. */
typedef struct rope_tables {
  mlx_array cosines, sines; /* [tokens, 1, 2, dims / 2] */
} rope_tables;

rope_tables rope_prepare(forward* f, const rope* r);

/* Rotates [tokens, heads, head dim] in the first `dims` features of each head. */
mlx_array rope_apply(scope* s, const rope_tables* t, mlx_array x, int head_dim, int dims);

/* Makes what the CPU's attention wants to know of the tokens beside their slots; false after an error. */
bool attention_plan_tokens(forward* f);

/* Writes k and v [tokens, kv heads, head dim] at their rows' slots and positions, and attends: q [tokens, heads, head dim] to
 * [tokens, heads * head dim]. `window` > 0 looks at that many last positions only. */
mlx_array attend(forward* f, int layer, mlx_array q, mlx_array k, mlx_array v, float scale, int window);

/* The same with queries and keys in one tensor, [tokens, num_heads + kv heads, head dim]. */
mlx_array attend_joined(forward* f, int layer, mlx_array qk, int num_heads, mlx_array v, float scale, int window);

#endif
