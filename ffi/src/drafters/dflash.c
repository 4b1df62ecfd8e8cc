/* DFlash: block diffusion in one step. The newest token and a row of masks attend to each other and to the target's hidden states of the
 * committed tokens, which enter every layer as keys and values only; all masks become tokens at once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../decoder.h"
#include "drafter.h"

typedef struct block {
  mlx_array attention_norm, query_norm, key_norm;
  linear query, key_value, output;
  mlp_block mlp;
  int window; /* 0: full attention; else the context that a block sees is window - 1 long */
} block;

typedef struct dflash_weights {
  int num_heads, num_kv_heads, head_dim;
  float eps;
  mlx_array hidden_norm, norm;
  linear fuse;
  rope rope;
  int num_blocks;
  block* blocks;
} dflash_weights;

#define NAME(...) (snprintf(name, sizeof name, __VA_ARGS__), name)

static void load_block(weights* w, const dflash_weights* l, block* b, int i, const char* prefix, int hidden) {
  char layer[64], name[160];
  int q_size = l->num_heads * l->head_dim, kv_size = l->num_kv_heads * l->head_dim;
  bool has_bias = config_bool(w->config, "attention_bias");
  snprintf(layer, sizeof layer, "%slayers.%d", prefix, i);
  b->window = load_window(w, i);
  b->attention_norm = weights_norm(w, NAME("%s.input_layernorm.weight", layer), hidden, 0);
  b->query_norm = weights_norm(w, NAME("%s.self_attn.q_norm.weight", layer), l->head_dim, 0);
  b->key_norm = weights_norm(w, NAME("%s.self_attn.k_norm.weight", layer), l->head_dim, 0);
  b->query = draft_linear(w, layer, (const char* const[]){"self_attn.q_proj"}, &q_size, 1, hidden, has_bias);
  b->key_value = draft_linear(w, layer, (const char* const[]){"self_attn.k_proj", "self_attn.v_proj"}, (const int[]){kv_size, kv_size}, 2, hidden, has_bias);
  b->output = draft_linear(w, layer, (const char* const[]){"self_attn.o_proj"}, &hidden, 1, q_size, has_bias);
  b->mlp = draft_mlp_load(w, layer, hidden, 0);
}

static void* load(weights* w, rl_drafter* d) {
  config* c = w->config;
  char name[160];
  dflash_weights* l = calloc(1, sizeof *l);
  if (l == NULL) return weights_fail(w, "Out of memory for a drafter"), NULL;
  drafter_size(d, c, config_int(c, "num_features", 1, 64) * d->target->hidden_size, d->target->hidden_size);
  l->num_heads = config_int(c, "num_attention_heads", 1, 1 << 14);
  l->num_kv_heads = d->base.num_kv_heads, l->head_dim = d->base.head_dim;
  l->eps = (float)config_float(c, "rms_norm_eps", 0, 1);
  int hidden = d->base.hidden_size;
  if (c->status == RL_OK && hidden != d->target->hidden_size)
    weights_fail(w, "The drafter's hidden_size is %d, that of the model %d", hidden, d->target->hidden_size);
  if (c->status == RL_OK && l->num_heads % l->num_kv_heads != 0)
    weights_fail(w, "num_attention_heads is %d, no multiple of num_key_value_heads %d", l->num_heads, l->num_kv_heads);
  if (c->status != RL_OK || w->status != RL_OK) return l;
  const char* prefix = weights_has(w, "model.fc.weight") ? "model." : "";
  projection fuse = {.rows = hidden};
  snprintf(fuse.module, sizeof fuse.module, "%sfc", prefix);
  l->fuse = weights_linear(w, &fuse, 1, d->target_width, false);
  l->hidden_norm = weights_norm(w, NAME("%shidden_norm.weight", prefix), hidden, 0);
  l->norm = weights_norm(w, NAME("%snorm.weight", prefix), hidden, 0);
  l->rope = rope_load(w, l->head_dim);
  l->blocks = calloc((size_t)d->base.num_layers, sizeof *l->blocks);
  if (l->blocks == NULL) weights_fail(w, "Out of memory for %d layers", d->base.num_layers);
  for (; l->num_blocks < d->base.num_layers && w->status == RL_OK && c->status == RL_OK; l->num_blocks++)
    load_block(w, l, &l->blocks[l->num_blocks], l->num_blocks, prefix, hidden);
  return l;
}

static void unload(void* loaded) {
  dflash_weights* l = loaded;
  for (int i = 0; i < l->num_blocks; i++) {
    block* b = &l->blocks[i];
    array_free(&b->attention_norm);
    array_free(&b->query_norm);
    array_free(&b->key_norm);
    linear_free(&b->query);
    linear_free(&b->key_value);
    linear_free(&b->output);
    mlp_block_free(&b->mlp);
  }
  array_free(&l->hidden_norm);
  array_free(&l->norm);
  linear_free(&l->fuse);
  rope_free(&l->rope);
  free(l->blocks);
  free(l);
}

/* `context` [context rows, hidden] may have ctx NULL: nothing joins the history in this call. */
static mlx_array attention(forward* f, const dflash_weights* l, const block* b, int layer, const rope_tables* query_tables, const rope_tables* key_tables,
                           mlx_array context, mlx_array x) {
  scope* s = f->s;
  int n = f->num_tokens, q = l->num_heads, kv = l->num_kv_heads, d = l->head_dim;
  mlx_array sources = context.ctx != NULL ? op_concatenate(s, (const mlx_array[]){context, x}, 2, 0) : x;
  if (s->status != RL_OK) return mlx_array_empty;
  mlx_array key_values = op_reshape(s, linear_apply(s, &b->key_value, sources), SHAPE(mlx_array_dim(sources, 0), 2 * kv, d));
  mlx_array queries = rms_norm(s, op_reshape(s, linear_apply(s, &b->query, x), SHAPE(n, q, d)), b->query_norm, l->eps);
  mlx_array keys = rms_norm(s, op_slice(s, key_values, 1, 0, kv), b->key_norm, l->eps);
  queries = rope_apply(s, query_tables, queries, d, d);
  keys = rope_apply(s, key_tables, keys, d, d);
  mlx_array values = op_slice(s, key_values, 1, kv, 2 * kv);
  return linear_apply(s, &b->output, attend(f, layer, queries, keys, values, 1 / sqrtf((float)d), b->window));
}

static mlx_array hidden(forward* f, const rl_drafter* d, const draft_inputs* inputs) {
  const dflash_weights* l = d->weights;
  scope* s = f->s;
  forward keys = *f;
  keys.positions = inputs->positions, keys.num_tokens = inputs->num_context + f->num_tokens;
  rope_tables query_tables = rope_prepare(f, &l->rope), key_tables = rope_prepare(&keys, &l->rope);
  mlx_array context = inputs->features;
  if (context.ctx != NULL) context = rms_norm(s, linear_apply(s, &l->fuse, context), l->hidden_norm, l->eps);
  mlx_array x = target_embed(f, d);
  for (int i = 0; i < l->num_blocks; i++) {
    block* b = &l->blocks[i];
    x = op_add(s, x, attention(f, l, b, i, &query_tables, &key_tables, context, rms_norm(s, x, b->attention_norm, l->eps)));
    x = mlp_block_apply(f, l->eps, &b->mlp, x);
  }
  return rms_norm(s, x, l->norm, l->eps);
}

const drafter_kind dflash_drafter = {.name = "dflash", .capture = RL_CAPTURE_LAYERS, .has_block = true, .load = load, .unload = unload,
                                     .hidden = hidden, .logits = target_logits};
