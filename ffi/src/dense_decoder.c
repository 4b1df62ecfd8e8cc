#include "dense_decoder.h"

#include <stdlib.h>

dense_decoder* dense_decoder_load(weights* w, void (*load_block)(weights* w, const decoder* d, dense_block* b, int layer)) {
  dense_decoder* m = calloc(1, sizeof *m);
  if (m == NULL) return weights_fail(w, "Out of memory for the model"), NULL;
  if (!decoder_read_sizes(w, &m->d)) return m;
  decoder_load_tables(w, &m->d, 0);
  m->rope = rope_load(w, m->d.head_dim);
  m->blocks = calloc((size_t)m->d.num_layers, sizeof *m->blocks);
  if (m->blocks == NULL) weights_fail(w, "Out of memory for %d layers", m->d.num_layers);
  for (; m->num_blocks < m->d.num_layers && w->status == RL_OK && w->config->status == RL_OK; m->num_blocks++)
    load_block(w, &m->d, &m->blocks[m->num_blocks], m->num_blocks);
  return m;
}

void dense_block_load(weights* w, const decoder* d, dense_block* b, int layer, dense_biases has) {
  int intermediate = config_int(w->config, "intermediate_size", 1, 1 << 22), q_size = d->num_heads * d->head_dim;
  b->attention.window = load_window(w, layer);
  b->attention.norm = load_layer_norm(w, layer, "input_layernorm", d->hidden_size, 0);
  b->mlp.norm = load_layer_norm(w, layer, "post_attention_layernorm", d->hidden_size, 0);
  b->attention.qkv = load_qkv(w, d, layer, has.qkv);
  b->attention.output = load_projection(w, layer, "self_attn.o_proj", d->hidden_size, q_size, has.output);
  b->mlp.gate_up = load_gate_up(w, d, layer, intermediate, has.mlp);
  b->mlp.down = load_projection(w, layer, "mlp.down_proj", d->hidden_size, intermediate, has.mlp);
}

void dense_decoder_unload(void* model) {
  dense_decoder* m = model;
  for (int i = 0; i < m->num_blocks; i++) {
    attention_block_free(&m->blocks[i].attention);
    mlp_block_free(&m->blocks[i].mlp);
  }
  decoder_free(&m->d);
  rope_free(&m->rope);
  free(m->blocks);
  free(m);
}

mlx_array dense_decoder_embed(forward* f, const void* model, mlx_array token_ids) {
  return embedding_apply(f->s, &((const dense_decoder*)model)->d.embedding, token_ids);
}

mlx_array dense_decoder_hidden(forward* f, const void* model) {
  const dense_decoder* m = model;
  const decoder* d = &m->d;
  rope_tables tables = rope_prepare(f, &m->rope);
  mlx_array x = dense_decoder_embed(f, m, f->token_ids);
  for (int i = 0; i < d->num_layers; i++) {
    dense_block* b = &m->blocks[i];
    x = attention_block_apply(f, d, &b->attention, i, b->lacks_positions ? NULL : &tables, x);
    x = mlp_block_apply(f, d->eps, &b->mlp, x);
    capture_layer(f, i, x);
  }
  return rms_norm(f->s, x, d->norm, d->eps);
}

mlx_array dense_decoder_logits(forward* f, const void* model, mlx_array hidden) {
  return linear_apply(f->s, &((const dense_decoder*)model)->d.head, hidden);
}
