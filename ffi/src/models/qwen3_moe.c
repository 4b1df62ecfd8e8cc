/* Qwen3-MoE (Yang et al., arXiv 2505.09388): Qwen3's attention, and in most layers a mixture of experts (Shazeer et al., arXiv 1701.06538)
 * in place of the MLP: the router's softmax picks the best few experts of each token, and their outputs are added with its weights. */
#include <stdio.h>
#include <stdlib.h>

#include "../decoder_block.h"

typedef struct block {
  attention_block attention;
  mlp_block mlp; /* its matrices are those of all experts when sparse */
  bool is_sparse;
  linear router;
} block;

typedef struct qwen3_moe_weights {
  decoder d;
  rope rope;
  int num_experts, num_chosen;
  bool normalizes; /* the chosen experts' weights add up to 1 */
  block* blocks;
  int num_blocks;
} qwen3_moe_weights;

static void load_mixture(weights* w, const qwen3_moe_weights* m, block* b, int i) {
  int hidden = m->d.hidden_size, intermediate = config_int(w->config, "moe_intermediate_size", 1, 1 << 22);
  projection gate_up[] = {{.module = "gate_proj", .rows = intermediate}, {.module = "up_proj", .rows = intermediate}};
  projection down = {.module = "down_proj", .rows = hidden};
  char module[64];
  snprintf(module, sizeof module, "model.layers.%d.mlp", i);
  b->router = load_projection(w, i, "mlp.gate", m->num_experts, hidden, false);
  b->mlp.gate_up = weights_experts(w, module, gate_up, 2, m->num_experts, hidden);
  b->mlp.down = weights_experts(w, module, &down, 1, m->num_experts, intermediate);
}

static void load_block(weights* w, const qwen3_moe_weights* m, block* b, int i) {
  const decoder* d = &m->d;
  bool attention_bias = config_bool(w->config, "attention_bias");
  int intermediate = config_int(w->config, "intermediate_size", 1, 1 << 22);
  b->is_sparse = config_list_int(w, "sparse_layers", i, 1) != 0;
  b->attention.norm = load_layer_norm(w, i, "input_layernorm", d->hidden_size, 0);
  b->mlp.norm = load_layer_norm(w, i, "post_attention_layernorm", d->hidden_size, 0);
  b->attention.qk_norm = load_qk_norm(w, d, i, 0);
  b->attention.qkv = load_qkv(w, d, i, attention_bias);
  b->attention.output = load_projection(w, i, "self_attn.o_proj", d->hidden_size, d->num_heads * d->head_dim, attention_bias);
  if (b->is_sparse) {
    load_mixture(w, m, b, i);
  } else {
    b->mlp.gate_up = load_gate_up(w, d, i, intermediate, false);
    b->mlp.down = load_projection(w, i, "mlp.down_proj", d->hidden_size, intermediate, false);
  }
}

static void* load(weights* w) {
  config* c = w->config;
  qwen3_moe_weights* m = calloc(1, sizeof *m);
  if (m == NULL) return weights_fail(w, "Out of memory for the model"), NULL;
  m->num_experts = config_int(c, "num_experts", 1, 1 << 16);
  m->num_chosen = config_int(c, "num_experts_per_tok", 1, m->num_experts);
  m->normalizes = config_bool(c, "norm_topk_prob");
  if (!decoder_read_sizes(w, &m->d)) return m;
  decoder_load_tables(w, &m->d, 0);
  m->rope = rope_load(w, m->d.head_dim);
  m->blocks = calloc((size_t)m->d.num_layers, sizeof *m->blocks);
  if (m->blocks == NULL) weights_fail(w, "Out of memory for %d layers", m->d.num_layers);
  for (; m->num_blocks < m->d.num_layers && w->status == RL_OK && c->status == RL_OK; m->num_blocks++)
    load_block(w, m, &m->blocks[m->num_blocks], m->num_blocks);
  return m;
}

static void unload(void* model) {
  qwen3_moe_weights* m = model;
  for (int i = 0; i < m->num_blocks; i++) {
    block* b = &m->blocks[i];
    attention_block_free(&b->attention);
    mlp_block_free(&b->mlp);
    linear_free(&b->router);
  }
  decoder_free(&m->d);
  rope_free(&m->rope);
  free(m->blocks);
  free(m);
}

/* Instead of the MLP's half of a block. */
static mlx_array mixture(forward* f, const qwen3_moe_weights* m, const block* b, mlx_array residual) {
  scope* s = f->s;
  mlx_array x = rms_norm(s, residual, b->mlp.norm, m->d.eps);
  mlx_array probabilities = op_softmax(s, linear_apply(s, &b->router, x)); /* [tokens, experts] */
  mlx_array experts = op_largest(s, probabilities, m->num_chosen);
  mlx_array shares = op_take_along(s, probabilities, experts);
  if (m->normalizes) shares = op_divide(s, shares, op_sum(s, shares, -1, true));
  mlx_array outputs = experts_apply(f, &b->mlp.down, swiglu(s, experts_apply(f, &b->mlp.gate_up, op_expand(s, x, 1), experts)), experts);
  return op_add(s, residual, op_sum(s, op_multiply(s, outputs, op_expand(s, shares, -1)), 1, false));
}

static mlx_array embed(forward* f, const void* model, mlx_array token_ids) {
  return embedding_apply(f->s, &((const qwen3_moe_weights*)model)->d.embedding, token_ids);
}

static mlx_array hidden(forward* f, const void* model) {
  const qwen3_moe_weights* m = model;
  const decoder* d = &m->d;
  scope* s = f->s;
  rope_tables tables = rope_prepare(f, &m->rope);
  mlx_array x = embed(f, m, f->token_ids);
  for (int i = 0; i < d->num_layers; i++) {
    block* b = &m->blocks[i];
    x = attention_block_apply(f, d, &b->attention, i, &tables, x);
    x = b->is_sparse ? mixture(f, m, b, x) : mlp_block_apply(f, d->eps, &b->mlp, x);
    capture_layer(f, i, x);
  }
  return rms_norm(s, x, d->norm, d->eps);
}

static mlx_array logits(forward* f, const void* model, mlx_array hidden_rows) {
  return linear_apply(f->s, &((const qwen3_moe_weights*)model)->d.head, hidden_rows);
}

const architecture qwen3_moe = {
    .model_type = "qwen3_moe", .load = load, .unload = unload, .hidden = hidden, .logits = logits, .embed = embed};
