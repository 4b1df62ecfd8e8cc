/* The mixture of experts of Qwen3.5-MoE: the routed experts of Qwen3-MoE, and one expert that every token takes, by a gate of its own. */
#ifndef ROWLOCK_QWEN3_5_MIXTURE_H
#define ROWLOCK_QWEN3_5_MIXTURE_H

#include "../layers.h"

typedef struct mixture {
  int num_chosen;
  linear router;
  linear gate_up, down;               /* of the routed experts, stacked */
  linear shared_gate_up, shared_down; /* of the shared expert */
  linear shared_gate;                 /* how much of it: [1, hidden] */
} mixture;

/* `module` is the name up to "mlp". */
mixture mixture_load(weights* w, const char* module, int hidden);
void mixture_free(mixture* m);

/* x [tokens, hidden] to the same. */
mlx_array mixture_apply(forward* f, const mixture* m, mlx_array x);

#endif
