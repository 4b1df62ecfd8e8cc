/* Phi-3 and Phi-4 (Abdin et al., arXiv 2404.14219): Llama's block, stored with fused projections. */
#include <math.h>

#include "../dense_decoder.h"

static void load_block(weights* w, const decoder* d, dense_block* b, int i) {
  int intermediate = config_int(w->config, "intermediate_size", 1, 1 << 22), q_size = d->num_heads * d->head_dim;
  b->window = load_window(w, i);
  b->attention_norm = load_layer_norm(w, i, "input_layernorm", d->hidden_size, 0);
  b->mlp_norm = load_layer_norm(w, i, "post_attention_layernorm", d->hidden_size, 0);
  b->qkv = load_projection(w, i, "self_attn.qkv_proj", q_size + 2 * d->num_kv_heads * d->head_dim, d->hidden_size, false);
  b->output = load_projection(w, i, "self_attn.o_proj", d->hidden_size, q_size, false);
  b->gate_up = load_projection(w, i, "mlp.gate_up_proj", 2 * intermediate, d->hidden_size, false);
  b->down = load_projection(w, i, "mlp.down_proj", d->hidden_size, intermediate, false);
}

static void* load(weights* w) { return dense_decoder_load(w, load_block); }

static mlx_array attention(forward* f, const dense_decoder* m, const dense_block* b, int layer, const rope_tables* tables, mlx_array x) {
  scope* s = f->s;
  const decoder* d = &m->d;
  heads h = project_heads(s, d, &b->qkv, x);
  h.qk = rope_apply(s, tables, h.qk, d->head_dim, m->rope.dims); /* Phi-4-mini turns three quarters of a head */
  return linear_apply(s, &b->output, attend_heads(f, d, layer, h, 1 / sqrtf((float)d->head_dim), b->window));
}

static mlx_array mlp(scope* s, const dense_block* b, mlx_array x) {
  return linear_apply(s, &b->down, swiglu(s, linear_apply(s, &b->gate_up, x)));
}

static mlx_array hidden(forward* f, const void* model) {
  const dense_decoder* m = model;
  const decoder* d = &m->d;
  scope* s = f->s;
  rope_tables tables = rope_prepare(f, &m->rope);
  mlx_array x = dense_decoder_embed(f, m, f->token_ids);
  for (int i = 0; i < d->num_layers; i++) {
    const dense_block* b = &m->blocks[i];
    x = op_add(s, x, attention(f, m, b, i, &tables, rms_norm(s, x, b->attention_norm, d->eps)));
    x = op_add(s, x, mlp(s, b, rms_norm(s, x, b->mlp_norm, d->eps)));
    capture_layer(f, i, x);
  }
  return rms_norm(s, x, d->norm, d->eps);
}

const architecture phi3 = {
    .model_type = "phi3",
    .load = load,
    .unload = dense_decoder_unload,
    .hidden = hidden,
    .logits = dense_decoder_logits,
    .embed = dense_decoder_embed,
};
