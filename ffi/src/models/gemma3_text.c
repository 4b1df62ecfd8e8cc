/* Gemma 3 (Gemma Team, arXiv 2503.19786), text: norms before and after attention and MLP, norms on the queries and keys of each head, a
 * GELU gate, a scaled embedding, and mostly sliding-window layers, which have a rotary base of their own. */
#include <math.h>
#include <stdlib.h>

#include "../decoder_block.h"
#include "../number_formats.h"

typedef struct block {
  attention_block attention;
  mlp_block mlp;
} block;

typedef struct gemma3_weights {
  decoder d;
  rope full_rope, window_rope;
  float embedding_scale;
  block* blocks;
  int num_blocks;
} gemma3_weights;

static void load_block(weights* w, const decoder* d, float norm_offset, block* b, int i) {
  int hidden = d->hidden_size, intermediate = config_int(w->config, "intermediate_size", 1, 1 << 22);
  b->attention.window = load_window(w, i);
  b->attention.norm = load_layer_norm(w, i, "input_layernorm", hidden, norm_offset);
  b->attention.after_norm = load_layer_norm(w, i, "post_attention_layernorm", hidden, norm_offset);
  b->mlp.norm = load_layer_norm(w, i, "pre_feedforward_layernorm", hidden, norm_offset);
  b->mlp.after_norm = load_layer_norm(w, i, "post_feedforward_layernorm", hidden, norm_offset);
  b->attention.qk_norm = load_qk_norm(w, d, i, norm_offset);
  b->attention.qkv = load_qkv(w, d, i, false);
  b->attention.scale = 1 / sqrtf((float)config_float(w->config, "query_pre_attn_scalar", 1e-3, 1e6));
  b->attention.output = load_projection(w, i, "self_attn.o_proj", hidden, d->num_heads * d->head_dim, false);
  b->mlp.gate_up = load_gate_up(w, d, i, intermediate, false);
  b->mlp.is_gelu = true;
  b->mlp.down = load_projection(w, i, "mlp.down_proj", hidden, intermediate, false);
}

static void* load(weights* w) {
  config* c = w->config;
  gemma3_weights* m = calloc(1, sizeof *m);
  if (m == NULL) return weights_fail(w, "Out of memory for the model"), NULL;
  /* Hugging Face stores norms as their distance from 1, GGUF as they are. */
  float norm_offset = (float)config_float(c, "norm_offset", 0, 1);
  if (!decoder_read_sizes(w, &m->d)) return m;
  /* The model was trained with a scale that had been rounded to bfloat16. */
  m->embedding_scale = bfloat_to_float(float_to_bfloat(sqrtf((float)m->d.hidden_size)));
  decoder_load_tables(w, &m->d, norm_offset);
  m->full_rope = rope_load(w, m->d.head_dim);
  m->window_rope = rope_plain(w, m->d.head_dim, config_float(c, "rope_local_base_freq", 1, 1e12));
  m->blocks = calloc((size_t)m->d.num_layers, sizeof *m->blocks);
  if (m->blocks == NULL) weights_fail(w, "Out of memory for %d layers", m->d.num_layers);
  for (; m->num_blocks < m->d.num_layers && w->status == RL_OK && c->status == RL_OK; m->num_blocks++)
    load_block(w, &m->d, norm_offset, &m->blocks[m->num_blocks], m->num_blocks);
  return m;
}

static void unload(void* model) {
  gemma3_weights* m = model;
  for (int i = 0; i < m->num_blocks; i++) {
    attention_block_free(&m->blocks[i].attention);
    mlp_block_free(&m->blocks[i].mlp);
  }
  decoder_free(&m->d);
  rope_free(&m->full_rope);
  rope_free(&m->window_rope);
  free(m->blocks);
  free(m);
}

static mlx_array embed(forward* f, const void* model, mlx_array token_ids) {
  const gemma3_weights* m = model;
  mlx_array x = embedding_apply(f->s, &m->d.embedding, token_ids);
  return op_multiply(f->s, x, op_scalar(f->s, m->embedding_scale, m->d.embedding.dtype));
}

static mlx_array hidden(forward* f, const void* model) {
  const gemma3_weights* m = model;
  const decoder* d = &m->d;
  scope* s = f->s;
  rope_tables full_tables = rope_prepare(f, &m->full_rope), window_tables = rope_prepare(f, &m->window_rope);
  mlx_array x = embed(f, m, f->token_ids);
  for (int i = 0; i < d->num_layers; i++) {
    block* b = &m->blocks[i];
    x = attention_block_apply(f, d, &b->attention, i, b->attention.window > 0 ? &window_tables : &full_tables, x);
    x = mlp_block_apply(f, d->eps, &b->mlp, x);
    capture_layer(f, i, x);
  }
  return rms_norm(s, x, d->norm, d->eps);
}

static mlx_array logits(forward* f, const void* model, mlx_array hidden_rows) {
  return linear_apply(f->s, &((const gemma3_weights*)model)->d.head, hidden_rows);
}

const architecture gemma3_text = {
    .model_type = "gemma3_text", .load = load, .unload = unload, .hidden = hidden, .logits = logits, .embed = embed};
