/* The gated delta rule over the tokens of one run, in two ways. */
#include <math.h>

#include "delta_net.h"

/* [rows, count, …] at one token: the token's axis goes. */
static mlx_array at(scope* s, mlx_array x, int token, const int* shape, int num_dims) {
  return op_reshape(s, op_slice(s, x, 1, token, token + 1), shape, num_dims);
}

/* One token: keys and queries meet the state in one product, before it is updated, so that the state is read once and written once. */
static mlx_array step(scope* s, const delta_run* d, int token, mlx_array keys_queries, mlx_array decays, mlx_array overlaps, mlx_array* state) {
  int n = d->num_rows, h = d->num_key_heads, g = d->group, v = d->value_dim, k = d->key_dim;
  mlx_array products = op_matmul(s, at(s, keys_queries, token, SHAPE(n, h, 2, k)), op_transpose(s, *state, SHAPE(0, 1, 3, 2)));
  mlx_array recalled = op_reshape(s, op_slice(s, products, 2, 0, 1), SHAPE(n, h, g, v));
  mlx_array answered = op_reshape(s, op_slice(s, products, 2, 1, 2), SHAPE(n, h, g, v));
  mlx_array decay = at(s, decays, token, SHAPE(n, h, g, 1));
  mlx_array error = op_subtract(s, at(s, d->values, token, SHAPE(n, h, g, v)), op_multiply(s, decay, recalled));
  mlx_array delta = op_multiply(s, at(s, d->betas, token, SHAPE(n, h, g, 1)), error);
  mlx_array kept = op_multiply(s, op_reshape(s, *state, SHAPE(n, h, g, v, k)), op_reshape(s, decay, SHAPE(n, h, g, 1, 1)));
  mlx_array learned = op_multiply(s, op_reshape(s, delta, SHAPE(n, h, g, v, 1)), at(s, d->keys, token, SHAPE(n, h, 1, 1, k)));
  *state = op_reshape(s, op_add(s, kept, learned), SHAPE(n, h, g * v, k));
  return op_add(s, op_multiply(s, decay, answered), op_multiply(s, delta, at(s, overlaps, token, SHAPE(n, h, 1, 1))));
}

mlx_array delta_rule_steps(scope* s, const delta_run* d, mlx_array* state, mlx_array* states) {
  mlx_array pairs[] = {op_expand(s, d->keys, 3), op_expand(s, d->queries, 3)};
  mlx_array keys_queries = op_concatenate(s, pairs, 2, 3), decays = op_exp(s, d->log_decays);
  mlx_array overlaps = op_sum(s, op_multiply(s, d->keys, d->queries), 3, true); /* k · q */
  mlx_array outputs[d->count];
  for (int token = 0; token < d->count; token++) {
    outputs[token] = op_expand(s, step(s, d, token, keys_queries, decays, overlaps, state), 1);
    if (states != NULL) states[token] = *state;
  }
  return op_concatenate(s, outputs, d->count, 1);
}

enum { CHUNK_TOKENS = 64 };

/* Constant [size, size] matrices: 1 below the diagonal; 1 on it; -inf above it. */
typedef struct triangles {
  mlx_array below, diagonal, forbidden;
} triangles;

static triangles make_triangles(scope* s, int size) {
  float below[CHUNK_TOKENS * CHUNK_TOKENS], diagonal[CHUNK_TOKENS * CHUNK_TOKENS], forbidden[CHUNK_TOKENS * CHUNK_TOKENS];
  for (int i = 0, at_entry = 0; i < size; i++)
    for (int j = 0; j < size; j++, at_entry++)
      below[at_entry] = i > j, diagonal[at_entry] = i == j, forbidden[at_entry] = i < j ? -INFINITY : 0;
  const float* all[] = {below, diagonal, forbidden};
  mlx_array matrices[3];
  for (int i = 0; i < 3; i++) matrices[i] = op_reshape(s, op_floats(s, all[i], size * size), SHAPE(size, size));
  return (triangles){matrices[0], matrices[1], matrices[2]};
}

/* Tokens [start, start + size) of [rows, count, key heads, …], the heads in front. */
static mlx_array chunk_of(scope* s, mlx_array x, int start, int size, const int* axes, int num_axes) {
  return op_transpose(s, op_slice(s, x, 1, start, start + size), axes, num_axes);
}

/* A product with the state, [rows, heads, tokens, G * value dim], as [rows, heads, G, tokens, value dim]. */
static mlx_array by_value_head(scope* s, const delta_run* d, mlx_array x, int size) {
  x = op_reshape(s, x, SHAPE(d->num_rows, d->num_key_heads, size, d->group, d->value_dim));
  return op_transpose(s, x, SHAPE(0, 1, 3, 2, 4));
}

/* With D[i, j] the decay from token j to token i, the deltas solve (I + beta K Kᵀ D below the diagonal) delta = beta (V - decayed S Kᵀ).
 * Decays are summed between each pair of tokens: differences of long sums would cancel. */
static mlx_array chunk(scope* s, const delta_run* d, int start, int size, mlx_array* state) {
  int n = d->num_rows, h = d->num_key_heads, g = d->group, v = d->value_dim, k = d->key_dim;
  triangles t = make_triangles(s, size);
  mlx_array q = chunk_of(s, d->queries, start, size, SHAPE(0, 2, 1, 3)), keys = chunk_of(s, d->keys, start, size, SHAPE(0, 2, 1, 3));
  mlx_array values = chunk_of(s, d->values, start, size, SHAPE(0, 2, 3, 1, 4));
  mlx_array betas = op_expand(s, chunk_of(s, d->betas, start, size, SHAPE(0, 2, 3, 1)), 4);
  mlx_array log_decays = op_expand(s, chunk_of(s, d->log_decays, start, size, SHAPE(0, 2, 3, 1)), 4);
  mlx_array between = op_cumulative_sum(s, op_multiply(s, log_decays, t.below), 3);
  mlx_array decays = op_exp(s, op_add(s, between, t.forbidden));             /* [rows, heads, G, size, size] */
  mlx_array from_start = op_exp(s, op_cumulative_sum(s, log_decays, 3));     /* [rows, heads, G, size, 1] */
  mlx_array keys_t = op_transpose(s, keys, SHAPE(0, 1, 3, 2)), state_t = op_transpose(s, *state, SHAPE(0, 1, 3, 2));
  mlx_array similar = op_expand(s, op_matmul(s, keys, keys_t), 2), attention = op_expand(s, op_matmul(s, q, keys_t), 2);
  mlx_array system = op_multiply(s, op_multiply(s, op_multiply(s, similar, decays), betas), t.below);
  mlx_array inverse = op_triangular_inverse(s, op_add(s, system, t.diagonal));
  mlx_array recalled = by_value_head(s, d, op_matmul(s, keys, state_t), size), answered = by_value_head(s, d, op_matmul(s, q, state_t), size);
  mlx_array errors = op_multiply(s, betas, op_subtract(s, values, op_multiply(s, from_start, recalled)));
  mlx_array deltas = op_matmul(s, inverse, errors);                          /* [rows, heads, G, size, value dim] */
  mlx_array y = op_add(s, op_multiply(s, from_start, answered), op_matmul(s, op_multiply(s, attention, decays), deltas));
  mlx_array to_end = op_transpose(s, op_slice(s, decays, 3, size - 1, size), SHAPE(0, 1, 2, 4, 3));
  mlx_array learned = op_transpose(s, op_multiply(s, deltas, to_end), SHAPE(0, 1, 2, 4, 3));
  learned = op_matmul(s, op_reshape(s, learned, SHAPE(n, h, g * v, size)), keys);
  mlx_array kept = op_multiply(s, op_reshape(s, *state, SHAPE(n, h, g, v, k)), op_slice(s, from_start, 3, size - 1, size));
  *state = op_add(s, op_reshape(s, kept, SHAPE(n, h, g * v, k)), learned);
  return op_transpose(s, y, SHAPE(0, 3, 1, 2, 4));
}

mlx_array delta_rule_chunks(scope* s, const delta_run* d, mlx_array* state) {
  int num_chunks = (d->count + CHUNK_TOKENS - 1) / CHUNK_TOKENS;
  mlx_array outputs[num_chunks];
  for (int i = 0; i < num_chunks; i++) {
    int start = i * CHUNK_TOKENS, size = d->count - start < CHUNK_TOKENS ? d->count - start : CHUNK_TOKENS;
    outputs[i] = chunk(s, d, start, size, state);
  }
  return op_concatenate(s, outputs, num_chunks, 1);
}
