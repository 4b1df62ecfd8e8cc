/* Qwen3.5 text models: three of four layers mix tokens by a gated delta rule (Yang et al., arXiv 2412.06464), the others by gated attention
 * with rotary positions on a part of each head. Its MoE models have a mixture of experts in place of every MLP. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qwen3_5_attention.h"
#include "qwen3_5_delta_net.h"
#include "qwen3_5_mixture.h"

typedef struct block {
  bool is_recurrent;
  mlx_array mixer_norm, mlp_norm;
  delta_net delta;
  gated_attention attention;
  linear gate_up, down; /* empty where there are experts */
  mixture experts;
} block;

typedef struct qwen3_5_weights {
  int num_layers;
  bool has_experts;
  float eps;
  delta_net_sizes delta;
  embedding embedding;
  mlx_array norm;
  linear head;
  rope rope;
  block* blocks;
  char prefix[32];   /* of the text model's tensors */
  float norm_offset; /* norms are stored as their distance from it */
} qwen3_5_weights;

#define NAME(...) (snprintf(name, sizeof name, __VA_ARGS__), name)

static bool is_layer_type(const config* c, int i, const char* type) {
  const char* entry = config_entry(c, "layer_types", i);
  size_t length = strlen(type);
  return entry != NULL && strncmp(entry, type, length) == 0 && (entry[length] == ',' || entry[length] == '\0');
}

static void load_mlp(weights* w, const qwen3_5_weights* q, block* b, const char* module, int hidden) {
  char name[96];
  if (w->config->status != RL_OK || w->status != RL_OK) return;
  if (q->has_experts) {
    b->experts = mixture_load(w, NAME("%s.mlp", module), hidden);
    return;
  }
  int intermediate = config_int(w->config, "intermediate_size", 1, 1 << 22);
  projection gate_up[] = {projection_of(module, "mlp.gate_proj", intermediate), projection_of(module, "mlp.up_proj", intermediate)};
  projection down = projection_of(module, "mlp.down_proj", hidden);
  b->gate_up = weights_linear(w, gate_up, 2, hidden, false);
  b->down = weights_linear(w, &down, 1, intermediate, false);
}

static void load_block(weights* w, const qwen3_5_weights* q, block* b, int i) {
  config* c = w->config;
  char module[64], name[96];
  int hidden = config_int(c, "hidden_size", 1, 1 << 20);
  snprintf(module, sizeof module, "%slayers.%d", q->prefix, i);
  b->is_recurrent = is_layer_type(c, i, "linear_attention");
  if (!b->is_recurrent && !is_layer_type(c, i, "full_attention"))
    weights_fail(w, "layer_types has no linear_attention or full_attention for layer %d", i);
  b->mixer_norm = weights_norm(w, NAME("%s.input_layernorm.weight", module), hidden, q->norm_offset);
  b->mlp_norm = weights_norm(w, NAME("%s.post_attention_layernorm.weight", module), hidden, q->norm_offset);
  if (b->is_recurrent) b->delta = delta_net_load(w, &q->delta, NAME("%s.linear_attn", module), hidden);
  else b->attention = gated_attention_load(w, NAME("%s.self_attn", module), hidden, q->norm_offset);
  load_mlp(w, q, b, module, hidden);
}

/* Hugging Face's layout stores norms as their distance from 1; converted ones, told by their names, and GGUF files hold them as they are used.
 * Some early conversions kept the stored norms, and the kernel's layout with them. */
static void find_layout(weights* w, qwen3_5_weights* q) {
  static const char* const prefixes[] = {"model.language_model.", "language_model.model.", "model."};
  char name[160];
  for (int i = 0; i < 3 && q->prefix[0] == '\0'; i++)
    if (weights_has(w, NAME("%sembed_tokens.weight", prefixes[i]))) snprintf(q->prefix, sizeof q->prefix, "%s", prefixes[i]);
  if (q->prefix[0] == '\0') weights_fail(w, "The checkpoint has no tensor model.language_model.embed_tokens.weight");
  q->norm_offset = q->delta.is_gguf || strcmp(q->prefix, prefixes[1]) == 0 ? 0 : 1;
  for (int i = 0; i < 1000; i++) {
    const tensor* kernel = tensors_find(w->tensors, NAME("%slayers.%d.linear_attn.conv1d.weight", q->prefix, i));
    if (kernel != NULL && kernel->num_dims == 3 && kernel->shape[2] != 1) q->norm_offset = 1;
  }
}

static void* load(weights* w) {
  config* c = w->config;
  char name[160];
  qwen3_5_weights* q = calloc(1, sizeof *q);
  if (q == NULL) return weights_fail(w, "Out of memory for the model"), NULL;
  q->delta = delta_net_read_sizes(w);
  q->eps = q->delta.eps;
  q->has_experts = config_has(c, "num_experts");
  int hidden = config_int(c, "hidden_size", 1, 1 << 20), vocab = config_int(c, "vocab_size", 1, 1 << 24);
  int num_layers = config_int(c, "num_hidden_layers", 1, 1000), rotary_dims = config_int(c, "rotary_dims", 2, 1 << 14);
  if (c->status == RL_OK) find_layout(w, q);
  if (c->status != RL_OK || w->status != RL_OK) return q;
  q->rope = rope_load(w, rotary_dims);
  q->embedding = weights_embedding(w, NAME("%sembed_tokens", q->prefix), vocab, hidden);
  q->norm = weights_norm(w, NAME("%snorm.weight", q->prefix), hidden, q->norm_offset);
  if (config_bool(c, "tie_word_embeddings")) {
    if (w->status == RL_OK) q->head = linear_of_embedding(&q->embedding);
  } else {
    projection head = {.rows = vocab};
    snprintf(head.module, sizeof head.module, "%slm_head", strncmp(q->prefix, "language_model.", 15) == 0 ? "language_model." : "");
    q->head = weights_linear(w, &head, 1, hidden, false);
  }
  q->blocks = calloc((size_t)num_layers, sizeof *q->blocks);
  q->num_layers = q->blocks != NULL ? num_layers : 0;
  for (int i = 0; i < q->num_layers && w->status == RL_OK && c->status == RL_OK; i++) load_block(w, q, &q->blocks[i], i);
  return q;
}

static void unload(void* loaded) {
  qwen3_5_weights* q = loaded;
  for (int i = 0; i < q->num_layers; i++) {
    block* b = &q->blocks[i];
    array_free(&b->mixer_norm);
    array_free(&b->mlp_norm);
    delta_net_free(&b->delta);
    gated_attention_free(&b->attention);
    linear_free(&b->gate_up);
    linear_free(&b->down);
    mixture_free(&b->experts);
  }
  embedding_free(&q->embedding);
  array_free(&q->norm);
  linear_free(&q->head);
  rope_free(&q->rope);
  free(q->blocks);
  free(q);
}

static void state(const void* loaded, int layer, layer_state* state) {
  const qwen3_5_weights* q = loaded;
  if (q->blocks[layer].is_recurrent) *state = delta_net_state(&q->delta);
}

static mlx_array mixer(forward* f, const qwen3_5_weights* q, const block* b, int layer, const rope_tables* tables, mlx_array x) {
  if (b->is_recurrent) return delta_net_apply(f, &q->delta, &b->delta, layer, x);
  return gated_attention_apply(f, &b->attention, layer, tables, x);
}

static mlx_array mlp(forward* f, const qwen3_5_weights* q, const block* b, mlx_array x) {
  if (q->has_experts) return mixture_apply(f, &b->experts, x);
  return linear_apply(f->s, &b->down, swiglu(f->s, linear_apply(f->s, &b->gate_up, x)));
}

static mlx_array embed(forward* f, const void* loaded, mlx_array token_ids) {
  return embedding_apply(f->s, &((const qwen3_5_weights*)loaded)->embedding, token_ids);
}

static mlx_array hidden(forward* f, const void* loaded) {
  const qwen3_5_weights* q = loaded;
  scope* s = f->s;
  rope_tables tables = rope_prepare(f, &q->rope);
  mlx_array x = embed(f, q, f->token_ids);
  for (int i = 0; i < q->num_layers; i++) {
    const block* b = &q->blocks[i];
    x = op_add(s, x, mixer(f, q, b, i, &tables, rms_norm(s, x, b->mixer_norm, q->eps)));
    x = op_add(s, x, mlp(f, q, b, rms_norm(s, x, b->mlp_norm, q->eps)));
    capture_layer(f, i, x);
  }
  return rms_norm(s, x, q->norm, q->eps);
}

static mlx_array logits(forward* f, const void* loaded, mlx_array hidden_rows) {
  return linear_apply(f->s, &((const qwen3_5_weights*)loaded)->head, hidden_rows);
}

const architecture qwen3_5 = {"qwen3_5", load, unload, hidden, logits, embed, state};
