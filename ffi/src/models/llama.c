/* Llama (Touvron et al., arXiv 2302.13971): pre-norm blocks of grouped-query attention with rotary positions and a SwiGLU MLP.
 * Covers Llama 2/3, SmolLM2 and checkpoints of the same shape, with optional biases and sliding-window layers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../layers.h"
#include "../model.h"

typedef struct block {
  mlx_array attention_norm, mlp_norm;
  linear qkv, output, gate_up, down;
  int window; /* 0: full attention */
} block;

typedef struct llama_weights {
  int num_layers, num_heads, num_kv_heads, head_dim;
  float eps;
  mlx_array embedding, norm;
  linear head;
  rope rope;
  block* blocks;
} llama_weights;

#define NAME(...) (snprintf(name, sizeof name, __VA_ARGS__), name)

/* The i-th of the comma-joined layer types; an empty list means that all layers are alike. */
static bool is_sliding(const char* layer_types, int i) {
  for (; i > 0 && layer_types != NULL && *layer_types != '\0'; i--) {
    layer_types = strchr(layer_types, ',');
    if (layer_types != NULL) layer_types++;
  }
  return layer_types != NULL && strncmp(layer_types, "sliding_attention", 17) == 0;
}

static projection part(int layer, const char* module, int rows, int interleaved_head_dim) {
  projection p = {.rows = rows, .head_dim = interleaved_head_dim};
  snprintf(p.module, sizeof p.module, "model.layers.%d.%s", layer, module);
  return p;
}

static void load_block(weights* w, const llama_weights* l, block* b, int i) {
  config* c = w->config;
  char name[128];
  int hidden = config_int(c, "hidden_size", 1, 1 << 20), intermediate = config_int(c, "intermediate_size", 1, 1 << 22);
  int q_size = l->num_heads * l->head_dim, kv_size = l->num_kv_heads * l->head_dim;
  int permuted = config_bool(c, "qk_interleaved") ? l->head_dim : 0;
  bool attention_bias = config_bool(c, "attention_bias"), mlp_bias = config_bool(c, "mlp_bias");
  b->window = is_sliding(config_text(c, "layer_types"), i) ? config_int(c, "sliding_window", 1, 1 << 24) : 0;
  b->attention_norm = weights_vector(w, NAME("model.layers.%d.input_layernorm.weight", i), hidden);
  b->mlp_norm = weights_vector(w, NAME("model.layers.%d.post_attention_layernorm.weight", i), hidden);
  projection qkv[] = {part(i, "self_attn.q_proj", q_size, permuted), part(i, "self_attn.k_proj", kv_size, permuted),
                      part(i, "self_attn.v_proj", kv_size, 0)};
  projection output = part(i, "self_attn.o_proj", hidden, 0), down = part(i, "mlp.down_proj", hidden, 0);
  projection gate_up[] = {part(i, "mlp.gate_proj", intermediate, 0), part(i, "mlp.up_proj", intermediate, 0)};
  b->qkv = weights_linear(w, qkv, 3, hidden, attention_bias);
  b->output = weights_linear(w, &output, 1, q_size, attention_bias);
  b->gate_up = weights_linear(w, gate_up, 2, hidden, mlp_bias);
  b->down = weights_linear(w, &down, 1, intermediate, mlp_bias);
}

static void* load(weights* w) {
  config* c = w->config;
  llama_weights* l = calloc(1, sizeof *l);
  if (l == NULL) return weights_fail(w, "Out of memory for the model"), NULL;
  l->num_heads = config_int(c, "num_attention_heads", 1, 1 << 14);
  l->num_kv_heads = config_int(c, "num_key_value_heads", 1, 1 << 14);
  l->head_dim = config_int(c, "head_dim", 2, 1 << 14);
  l->eps = (float)config_float(c, "rms_norm_eps", 0, 1);
  int hidden = config_int(c, "hidden_size", 1, 1 << 20), vocab = config_int(c, "vocab_size", 1, 1 << 24);
  int num_layers = config_int(c, "num_hidden_layers", 1, 1000);
  if (c->status == RL_OK && l->num_heads % l->num_kv_heads != 0)
    weights_fail(w, "num_attention_heads is %d, no multiple of num_key_value_heads %d", l->num_heads, l->num_kv_heads);
  if (c->status != RL_OK || w->status != RL_OK) return l;
  l->rope = rope_load(w, l->head_dim);
  l->embedding = weights_matrix(w, "model.embed_tokens", vocab, hidden);
  l->norm = weights_vector(w, "model.norm.weight", hidden);
  if (!config_bool(c, "tie_word_embeddings")) {
    projection head = {.module = "lm_head", .rows = vocab};
    l->head = weights_linear(w, &head, 1, hidden, false);
  } else if (w->status == RL_OK) {
    l->head = linear_of(l->embedding);
  }
  l->blocks = calloc((size_t)num_layers, sizeof *l->blocks);
  l->num_layers = l->blocks != NULL ? num_layers : 0;
  for (int i = 0; i < l->num_layers && w->status == RL_OK && c->status == RL_OK; i++) load_block(w, l, &l->blocks[i], i);
  return l;
}

static void unload(void* loaded) {
  llama_weights* l = loaded;
  for (int i = 0; i < l->num_layers; i++) {
    block* b = &l->blocks[i];
    array_free(&b->attention_norm);
    array_free(&b->mlp_norm);
    linear_free(&b->qkv);
    linear_free(&b->output);
    linear_free(&b->gate_up);
    linear_free(&b->down);
  }
  array_free(&l->embedding);
  array_free(&l->norm);
  linear_free(&l->head);
  rope_free(&l->rope);
  free(l->blocks);
  free(l);
}

static mlx_array attention(forward* f, const llama_weights* l, const block* b, int layer, const rope_tables* tables, mlx_array x) {
  scope* s = f->s;
  int n = f->num_tokens, q = l->num_heads, kv = l->num_kv_heads, d = l->head_dim;
  mlx_array qkv = op_reshape(s, linear_apply(s, &b->qkv, x), SHAPE(n, q + 2 * kv, d));
  mlx_array qk = rope_apply(s, tables, op_slice(s, qkv, 1, 0, q + kv), d, d);
  mlx_array queries = op_slice(s, qk, 1, 0, q), keys = op_slice(s, qk, 1, q, q + kv), values = op_slice(s, qkv, 1, q + kv, q + 2 * kv);
  return linear_apply(s, &b->output, attend(f, layer, queries, keys, values, 1 / sqrtf((float)d), b->window));
}

static mlx_array hidden(forward* f, const void* loaded) {
  const llama_weights* l = loaded;
  scope* s = f->s;
  rope_tables tables = rope_prepare(f, &l->rope);
  mlx_array x = op_take(s, l->embedding, f->token_ids, 0);
  for (int i = 0; i < l->num_layers; i++) {
    const block* b = &l->blocks[i];
    x = op_add(s, x, attention(f, l, b, i, &tables, rms_norm(s, x, b->attention_norm, l->eps)));
    x = op_add(s, x, linear_apply(s, &b->down, swiglu(s, linear_apply(s, &b->gate_up, rms_norm(s, x, b->mlp_norm, l->eps)))));
  }
  return rms_norm(s, x, l->norm, l->eps);
}

static mlx_array logits(forward* f, const void* loaded, mlx_array hidden_rows) {
  return linear_apply(f->s, &((const llama_weights*)loaded)->head, hidden_rows);
}

const architecture llama = {"llama", load, unload, hidden, logits};
