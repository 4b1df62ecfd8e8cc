/* What the decoder-only transformers here share: sizes, the tables around the stack of blocks, and the loading of the usual projections.
 * What a block computes is in models/, one file for each model_type. */
#ifndef ROWLOCK_DECODER_H
#define ROWLOCK_DECODER_H

#include "layers.h"
#include "model.h"

typedef struct decoder {
  int num_layers, num_heads, num_kv_heads, head_dim, hidden_size, vocab_size;
  float eps; /* of all norms */
  embedding embedding;
  mlx_array norm; /* after the last block */
  linear head;
} decoder;

/* Reads and checks the sizes; false after an error. */
bool decoder_read_sizes(weights* w, decoder* d);
/* Loads embedding, final norm and head; `norm_offset` is added to the norm. */
void decoder_load_tables(weights* w, decoder* d, float norm_offset);
void decoder_free(decoder* d);

/* ---- loading one block ---- */

/* A vector of layer `layer`: model.layers.<layer>.<name>.weight. */
mlx_array load_layer_norm(weights* w, int layer, const char* name, int size, float offset);

/* self_attn.{q,k,v}_proj in one product; the config's qk_interleaved tells that heads are stored in GGUF's order. */
linear load_qkv(weights* w, const decoder* d, int layer, bool has_bias);
/* Any single projection of layer `layer`. */
linear load_projection(weights* w, int layer, const char* module, int out, int in, bool has_bias);
/* mlp.{gate,up}_proj in one product. */
linear load_gate_up(weights* w, const decoder* d, int layer, int intermediate_size, bool has_bias);

/* self_attn.{q,k}_norm, repeated for every head: [heads + kv heads, head dim], as `head_norm` takes it. */
mlx_array load_qk_norm(weights* w, const decoder* d, int layer, float offset);

/* The layer's sliding window by the config's layer_types and sliding_window; 0: full attention. */
int load_window(weights* w, int layer);
/* The layer's entry in a comma-joined list of numbers; `missing` when the list is empty. */
int config_list_int(weights* w, const char* key, int index, int missing);

/* ---- computing one block ---- */

/* Heads of a step's tokens: queries ‖ keys [tokens, heads + kv heads, head dim], values [tokens, kv heads, head dim]. */
typedef struct heads {
  mlx_array qk, v;
} heads;

heads project_heads(scope* s, const decoder* d, const linear* qkv, mlx_array x);
/* RMS norm within each head. */
mlx_array head_norm(scope* s, mlx_array qk, mlx_array weight, float eps);
/* Attention of layer `layer`: [tokens, heads * head dim]. */
mlx_array attend_heads(forward* f, const decoder* d, int layer, heads h, float scale, int window);

#endif
