/* One step: the packed tokens of ragged rows, and how their attention is grouped. */
#ifndef ROWLOCK_FORWARD_H
#define ROWLOCK_FORWARD_H

#include "ops.h"

/* Consecutive rows of equal count in neighbouring slots: their attention is one batched product over a view of the cache. */
typedef struct run {
  int first_row;
  int first_token; /* in the packed tokens */
  int first_slot;
  int num_rows;
  int count;       /* tokens of each row */
  int length;      /* cached positions that the run looks at: its longest row, rounded up */
  bool is_verify;  /* its rows keep their recurrent states after each token */
  mlx_array mask;  /* float [rows, 1, 1, count, length], 0 or -inf; ctx NULL when every row sees all of `length` */
  mlx_array window_mask; /* the same for sliding-window layers */
  bool has_mask, has_window_mask; /* made when the first layer asks */
} run;

typedef struct forward {
  scope* s;
  rl_model* model;
  rl_cache* cache;
  const int32_t* tokens;
  const rl_row* rows;
  int num_tokens, num_rows;
  int32_t* positions; /* of every token */
  const int32_t* last_seen; /* the last position that every token attends to: its own, in a model */
  const int32_t* window_from; /* the position that a sliding window ends at: a token's own, in a model */
  /* The same for the CPU's attention, and the slot of every token that attends: int32 [tokens], made when the first layer asks. */
  mlx_array host_slots, host_last_seen, host_window_from;
  mlx_array token_ids; /* int32 [tokens] */
  mlx_array scatter_slots, scatter_positions; /* where every token's KV goes: int32 [tokens] */
  run* runs;
  int num_runs;
  mlx_array scratch; /* of the CPU's blocks, which run one after the other: bytes, made when the first layer asks */
  mlx_array* captured; /* [capture layers]: outputs that capture_layer has seen */
} forward;

/* Every architecture calls it with each decoder layer's output [tokens, hidden]: drafters may have asked for it. */
void capture_layer(forward* f, int layer, mlx_array x);

/* Whether drafters have asked for the layer's output. */
bool is_captured(const forward* f, int layer);

int32_t forward_check_tokens(const rl_model* m, const int32_t* tokens, int num_tokens);

/* Cuts the rows into runs: a row extends the run before it when it has the same count and the next slot. `lengths` are the cached positions
 * that each row looks at; NULL: up to its last new token. */
void forward_plan_runs(forward* f, const int32_t* lengths);

/* Launches logits, features (either may have ctx NULL) and all cache updates, and hands the results to `output`, with the model or drafter
 * that made them. Closes the scope first, so that updates happen in place. */
int32_t forward_launch(forward* f, rl_output* output, const void* maker, mlx_array logits, mlx_array features, mlx_array hidden);

#endif
