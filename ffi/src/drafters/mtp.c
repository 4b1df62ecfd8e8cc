/* Multi-token prediction as Qwen3.5 has it (the modules of DeepSeek-V3, arXiv 2412.19437, section 2.2): the embedding of a token and the hidden
 * state before it, each normed, become one input of a gated attention layer. */
#include <stdio.h>
#include <stdlib.h>

#include "../models/qwen3_5_attention.h"
#include "drafter.h"

typedef struct block {
  mlx_array attention_norm;
  gated_attention attention;
  mlp_block mlp;
} block;

typedef struct mtp_weights {
  float eps;
  mlx_array embedding_norm, feature_norm, norm;
  linear join; /* [embedding ‖ feature] to hidden */
  rope rope;
  int num_blocks;
  block* blocks;
} mtp_weights;

#define NAME(...) (snprintf(name, sizeof name, __VA_ARGS__), name)

static void load_block(weights* w, block* b, const char* layer, int hidden, float norm_offset) {
  char name[160];
  b->attention_norm = weights_norm(w, NAME("%s.input_layernorm.weight", layer), hidden, norm_offset);
  b->attention = gated_attention_load(w, NAME("%s.self_attn", layer), hidden, norm_offset);
  b->mlp = draft_mlp_load(w, layer, hidden, norm_offset);
}

static void* load(weights* w, rl_drafter* d) {
  config* c = w->config;
  char name[160], layer[96];
  mtp_weights* m = calloc(1, sizeof *m);
  if (m == NULL) return weights_fail(w, "Out of memory for a drafter"), NULL;
  drafter_size(d, c, d->target->hidden_size, d->target->hidden_size);
  m->eps = (float)config_float(c, "rms_norm_eps", 0, 1);
  int hidden = d->base.hidden_size, rotary_dims = config_int(c, "rotary_dims", 2, 1 << 14);
  if (c->status == RL_OK && hidden != d->target->hidden_size)
    weights_fail(w, "The drafter's hidden_size is %d, that of the model %d", hidden, d->target->hidden_size);
  if (c->status != RL_OK || w->status != RL_OK) return m;
  /* In the model's checkpoint the tensors have a prefix, and the norms are stored as their distance from 1. */
  bool is_in_checkpoint = weights_has(w, "mtp.fc.weight");
  const char* prefix = is_in_checkpoint ? "mtp." : "";
  float norm_offset = is_in_checkpoint ? 1 : 0;
  projection join = {.rows = hidden};
  snprintf(join.module, sizeof join.module, "%sfc", prefix);
  m->join = weights_linear(w, &join, 1, 2 * hidden, false);
  m->embedding_norm = weights_norm(w, NAME("%spre_fc_norm_embedding.weight", prefix), hidden, norm_offset);
  m->feature_norm = weights_norm(w, NAME("%spre_fc_norm_hidden.weight", prefix), hidden, norm_offset);
  m->norm = weights_norm(w, NAME("%snorm.weight", prefix), hidden, norm_offset);
  m->rope = rope_load(w, rotary_dims);
  m->blocks = calloc((size_t)d->base.num_layers, sizeof *m->blocks);
  if (m->blocks == NULL) weights_fail(w, "Out of memory for %d layers", d->base.num_layers);
  for (; m->num_blocks < d->base.num_layers && w->status == RL_OK && c->status == RL_OK; m->num_blocks++) {
    snprintf(layer, sizeof layer, "%slayers.%d", prefix, m->num_blocks);
    load_block(w, &m->blocks[m->num_blocks], layer, hidden, norm_offset);
  }
  return m;
}

static void unload(void* loaded) {
  mtp_weights* m = loaded;
  for (int i = 0; i < m->num_blocks; i++) {
    array_free(&m->blocks[i].attention_norm);
    gated_attention_free(&m->blocks[i].attention);
    mlp_block_free(&m->blocks[i].mlp);
  }
  array_free(&m->embedding_norm);
  array_free(&m->feature_norm);
  array_free(&m->norm);
  linear_free(&m->join);
  rope_free(&m->rope);
  free(m->blocks);
  free(m);
}

static mlx_array hidden(forward* f, const rl_drafter* d, const draft_inputs* inputs) {
  const mtp_weights* m = d->weights;
  scope* s = f->s;
  rope_tables tables = rope_prepare(f, &m->rope);
  mlx_array embedded = rms_norm(s, target_embed(f, d), m->embedding_norm, m->eps);
  mlx_array feature = rms_norm(s, inputs->features, m->feature_norm, m->eps);
  mlx_array x = linear_apply(s, &m->join, op_concatenate(s, (const mlx_array[]){embedded, feature}, 2, 1));
  for (int i = 0; i < m->num_blocks; i++) {
    block* b = &m->blocks[i];
    x = op_add(s, x, gated_attention_apply(f, &b->attention, i, &tables, rms_norm(s, x, b->attention_norm, m->eps)));
    x = mlp_block_apply(f, m->eps, &b->mlp, x);
  }
  return rms_norm(s, x, m->norm, m->eps);
}

const drafter_kind mtp_drafter = {.name = "mtp", .capture = RL_CAPTURE_FINAL, .load = load, .unload = unload, .hidden = hidden, .logits = target_logits};
