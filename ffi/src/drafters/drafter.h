/* Drafters: small models that propose tokens for a target model from the target's own hidden states. */
#ifndef ROWLOCK_DRAFTER_H
#define ROWLOCK_DRAFTER_H

#include "../cache.h"
#include "../decoder_block.h"

/* What a draft call gives beside the tokens of `forward`. */
typedef struct draft_inputs {
  mlx_array features;   /* [feature rows, width], packed like the rows */
  bool is_own;          /* made by this drafter, not by its target */
  int num_context;      /* features that join the history without a token of their own (dflash), else 0 */
  int32_t* positions;   /* of the context, then of the tokens */
} draft_inputs;

/* One kind, one file. `hidden` gives a row [width] for every token; it is the kind's own feature and what `logits` starts from. */
typedef struct drafter_kind {
  const char* name;
  int32_t capture;         /* RL_CAPTURE_* of the target's features */
  bool has_block;          /* drafts are all tokens of a block at once; features are context */
  void* (*load)(weights* w, rl_drafter* d); /* sets the drafter's sizes too; errors stick in `w` and its config */
  void (*unload)(void* weights);
  mlx_array (*hidden)(forward* f, const rl_drafter* d, const draft_inputs* inputs);
  mlx_array (*logits)(forward* f, const rl_drafter* d, mlx_array hidden);
} drafter_kind;

struct rl_drafter {
  rl_model base; /* owner, stream and sizes, as caches and attention see them; it has no architecture */
  rl_model* target;
  const drafter_kind* kind;
  void* weights;
  int target_width, own_width; /* of features */
};

extern const drafter_kind mtp_drafter, eagle3_drafter, dflash_drafter;

/* The target's embedding of the call's tokens, and its output head. */
mlx_array target_embed(forward* f, const rl_drafter* d);
mlx_array target_logits(forward* f, const rl_drafter* d, mlx_array hidden);

/* Sets layers, heads and feature widths of the drafter. */
void drafter_size(rl_drafter* d, config* c, int target_width, int own_width);

/* The SwiGLU MLP that all kinds have behind their attention; `layer` is the name of the layer, "layers.0". */
mlp_block draft_mlp_load(weights* w, const char* layer, int hidden, float norm_offset);

/* A linear of parts `layer`.`names[i]` (up to 3), without biases unless asked for. */
linear draft_linear(weights* w, const char* layer, const char* const* names, const int* rows, int num_parts, int columns, bool has_bias);

#endif
