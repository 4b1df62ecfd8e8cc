/* The recurrent half of gated delta networks (Yang et al., arXiv 2412.06464): a causal convolution and the gated delta rule, each over the
 * ragged rows of a step, with their states in the cache. Everything is float32, whatever the model's type. */
#ifndef ROWLOCK_DELTA_NET_H
#define ROWLOCK_DELTA_NET_H

#include "forward.h"

/* Depthwise over each row's own tokens: x [tokens, channels] and kernel [width, channels], the last tap on the newest token. */
mlx_array causal_convolution(forward* f, int layer, mlx_array x, mlx_array kernel);

typedef struct delta_rule {
  mlx_array queries, keys;     /* [tokens, key heads, key dim] */
  mlx_array values;            /* [tokens, value heads, value dim]; neighbouring value heads share a key head */
  mlx_array log_decays, betas; /* [tokens, value heads] */
} delta_rule;

/* S <- decay S + beta (v - decay S k) k^T; y = S q. Returns y [tokens, value heads, value dim]. */
mlx_array gated_delta_rule(forward* f, int layer, const delta_rule* d);

/* ---- shared by the two ways to compute the rule ---- */

/* One run's inputs. G value heads share a key head. */
typedef struct delta_run {
  int num_rows, count, num_key_heads, group, key_dim, value_dim;
  mlx_array queries, keys;     /* [rows, count, key heads, key dim] */
  mlx_array values;            /* [rows, count, key heads, G, value dim] */
  mlx_array log_decays, betas; /* [rows, count, key heads, G] */
} delta_run;

/* Token by token: the same bits however a row's tokens are cut into steps. `state` [rows, key heads, G * value dim, key dim] is replaced;
 * `states` gets it after each token, or is NULL. Returns [rows, count, key heads, G, value dim]. */
mlx_array delta_rule_steps(scope* s, const delta_run* d, mlx_array* state, mlx_array* states);

/* The same in matrix products over chunks of tokens (the WY form of the paper's section 3.3). */
mlx_array delta_rule_chunks(scope* s, const delta_run* d, mlx_array* state);

#endif
