/* One step: the packed tokens of ragged rows, and how their attention is grouped. */
#ifndef ROWLOCK_FORWARD_H
#define ROWLOCK_FORWARD_H

#include "ops.h"

/* Consecutive rows of equal count in neighbouring slots: their attention is one batched product over a view of the cache. */
typedef struct run {
  int first_token; /* in the packed tokens */
  int first_slot;
  int num_rows;
  int count;       /* tokens of each row */
  int length;      /* cached positions that the run looks at: its longest row, rounded up */
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
  mlx_array token_ids; /* int32 [tokens] */
  mlx_array scatter_slots, scatter_positions; /* where every token's KV goes: int32 [tokens] */
  run* runs;
  int num_runs;
} forward;

#endif
