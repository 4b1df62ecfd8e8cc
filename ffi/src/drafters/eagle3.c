/* EAGLE-3 (Li et al., arXiv 2503.01840): hidden states of several of the target's layers, fused into one, join the embedding of the next token in
 * the attention of a single layer. The logits may cover a part of the target's vocabulary. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cpu/host_op.h"
#include "drafter.h"

typedef struct block {
  mlx_array attention_norm;
  linear qkv, output;
  mlp_block mlp;
} block;

typedef struct eagle3_weights {
  int num_heads, num_kv_heads, head_dim;
  float eps;
  bool norm_before_residual;
  mlx_array input_norm;  /* of the target's features; ctx NULL: none */
  mlx_array hidden_norm, norm;
  embedding embedding;   /* its own, where the target's has another width */
  bool has_embedding;
  linear fuse, head;     /* head without parts: the target's */
  mlx_array tokens;      /* int32 [draft vocabulary]: the tokens that the head's rows stand for; ctx NULL: all of them */
  rope rope;
  int num_blocks;
  block* blocks;
} eagle3_weights;

#define NAME(...) (snprintf(name, sizeof name, __VA_ARGS__), name)

/* d2t holds the distance from each draft id to its token. */
static void load_tokens(weights* w, eagle3_weights* e, int draft_vocab, int vocab) {
  const tensor* t = tensors_find(w->tensors, "d2t");
  if (t == NULL && draft_vocab != vocab) weights_fail(w, "The drafter has %d tokens, the model %d, and there is no tensor d2t", draft_vocab, vocab);
  if (t == NULL || w->status != RL_OK) return;
  size_t width = strcmp(t->type->name, "I64") == 0 ? 8 : strcmp(t->type->name, "I32") == 0 ? 4 : 0;
  if (width == 0 || t->num_dims != 1 || t->shape[0] != draft_vocab) {
    weights_fail(w, "Tensor d2t has %lld values of type %s, expected %d of I64 or I32", (long long)t->shape[0], t->type->name, draft_vocab);
    return;
  }
  int32_t* tokens = malloc((size_t)draft_vocab * sizeof *tokens);
  if (tokens == NULL) return weights_fail(w, "Out of memory for %d tokens", draft_vocab);
  for (int i = 0; i < draft_vocab && w->status == RL_OK; i++) {
    int64_t distance = 0;
    int32_t narrow = 0;
    if (width == 8) memcpy(&distance, t->data + 8 * (size_t)i, 8);
    else memcpy(&narrow, t->data + 4 * (size_t)i, 4), distance = narrow;
    if (distance < -i || distance >= vocab - i) weights_fail(w, "Tensor d2t maps draft id %d to %lld, expected 0 … %d", i, (long long)distance + i, vocab - 1);
    else tokens[i] = (int32_t)(i + distance);
  }
  if (w->status == RL_OK) e->tokens = mlx_array_new_data(tokens, &draft_vocab, 1, MLX_INT32);
  free(tokens);
}

/* The first layer attends over [embedding ‖ hidden state], twice as wide as the others. */
static void load_block(weights* w, const eagle3_weights* e, block* b, const char* layer, int hidden, bool is_first) {
  char name[160];
  int q_size = e->num_heads * e->head_dim, kv_size = e->num_kv_heads * e->head_dim;
  bool has_bias = config_bool(w->config, "attention_bias");
  b->attention_norm = weights_norm(w, NAME("%s.input_layernorm.weight", layer), hidden, 0);
  b->qkv = draft_linear(w, layer, (const char* const[]){"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                        (const int[]){q_size, kv_size, kv_size}, 3, is_first ? 2 * hidden : hidden, has_bias);
  b->output = draft_linear(w, layer, (const char* const[]){"self_attn.o_proj"}, &hidden, 1, q_size, has_bias);
  b->mlp = draft_mlp_load(w, layer, hidden, 0);
}

static void read_sizes(config* c, eagle3_weights* e, rl_drafter* d) {
  int num_features = config_int(c, "num_features", 1, 64);
  drafter_size(d, c, num_features * d->target->hidden_size, config_int(c, "hidden_size", 1, 1 << 20));
  e->num_heads = config_int(c, "num_attention_heads", 1, 1 << 14);
  e->num_kv_heads = d->base.num_kv_heads, e->head_dim = d->base.head_dim;
  e->eps = (float)config_float(c, "rms_norm_eps", 0, 1);
  e->norm_before_residual = config_bool(c, "norm_before_residual");
}

static void load_tables(weights* w, eagle3_weights* e, const rl_drafter* d, const char* first_layer) {
  char name[160];
  int hidden = d->base.hidden_size, draft_vocab = config_int(w->config, "draft_vocab_size", 1, 1 << 24);
  projection fuse = {.module = "fc", .rows = hidden}, head = {.module = "lm_head", .rows = draft_vocab};
  e->fuse = weights_linear(w, &fuse, 1, d->target_width, false);
  if (config_bool(w->config, "norm_before_fc")) e->input_norm = weights_norm(w, "input_norm.weight", d->target_width, 0);
  e->hidden_norm = weights_norm(w, NAME("%s.hidden_norm.weight", first_layer), hidden, 0);
  e->norm = weights_norm(w, "norm.weight", hidden, 0);
  e->has_embedding = hidden != d->target->hidden_size;
  if (e->has_embedding) e->embedding = weights_embedding(w, "embed_tokens", d->target->vocab_size, hidden);
  if (weights_has(w, "lm_head.weight")) e->head = weights_linear(w, &head, 1, hidden, false);
  else if (e->has_embedding || draft_vocab != d->target->vocab_size)
    weights_fail(w, "The drafter has no tensor lm_head.weight, and its sizes [%d, %d] are not those of the model's head", draft_vocab, hidden);
  load_tokens(w, e, draft_vocab, d->target->vocab_size);
}

static void* load(weights* w, rl_drafter* d) {
  config* c = w->config;
  char layer[32];
  eagle3_weights* e = calloc(1, sizeof *e);
  if (e == NULL) return weights_fail(w, "Out of memory for a drafter"), NULL;
  read_sizes(c, e, d);
  if (c->status == RL_OK && e->num_heads % e->num_kv_heads != 0)
    weights_fail(w, "num_attention_heads is %d, no multiple of num_key_value_heads %d", e->num_heads, e->num_kv_heads);
  if (c->status != RL_OK || w->status != RL_OK) return e;
  const char* first_layer = weights_has(w, "midlayer.hidden_norm.weight") ? "midlayer" : "layers.0";
  load_tables(w, e, d, first_layer);
  e->rope = rope_load(w, e->head_dim);
  e->blocks = calloc((size_t)d->base.num_layers, sizeof *e->blocks);
  if (e->blocks == NULL) weights_fail(w, "Out of memory for %d layers", d->base.num_layers);
  for (; e->num_blocks < d->base.num_layers && w->status == RL_OK && c->status == RL_OK; e->num_blocks++) {
    snprintf(layer, sizeof layer, "layers.%d", e->num_blocks);
    load_block(w, e, &e->blocks[e->num_blocks], e->num_blocks == 0 ? first_layer : layer, d->base.hidden_size, e->num_blocks == 0);
  }
  return e;
}

static void unload(void* loaded) {
  eagle3_weights* e = loaded;
  for (int i = 0; i < e->num_blocks; i++) {
    array_free(&e->blocks[i].attention_norm);
    linear_free(&e->blocks[i].qkv);
    linear_free(&e->blocks[i].output);
    mlp_block_free(&e->blocks[i].mlp);
  }
  mlx_array* arrays[] = {&e->input_norm, &e->hidden_norm, &e->norm, &e->tokens};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) array_free(arrays[i]);
  embedding_free(&e->embedding);
  linear_free(&e->fuse);
  linear_free(&e->head);
  rope_free(&e->rope);
  free(e->blocks);
  free(e);
}

static mlx_array attention(forward* f, const eagle3_weights* e, const block* b, int layer, const rope_tables* tables, mlx_array x) {
  scope* s = f->s;
  int n = f->num_tokens, q = e->num_heads, kv = e->num_kv_heads, d = e->head_dim;
  mlx_array qkv = op_reshape(s, linear_apply(s, &b->qkv, x), SHAPE(n, q + 2 * kv, d));
  mlx_array qk = rope_apply(s, tables, op_slice(s, qkv, 1, 0, q + kv), d, d);
  mlx_array queries = op_slice(s, qk, 1, 0, q), keys = op_slice(s, qk, 1, q, q + kv), values = op_slice(s, qkv, 1, q + kv, q + 2 * kv);
  return linear_apply(s, &b->output, attend(f, layer, queries, keys, values, 1 / sqrtf((float)d), 0));
}

/* The paper's positions count from 1 here; a shift that all entries share does nothing in rotary attention. */
static mlx_array hidden(forward* f, const rl_drafter* d, const draft_inputs* inputs) {
  const eagle3_weights* e = d->weights;
  scope* s = f->s;
  rope_tables tables = rope_prepare(f, &e->rope);
  mlx_array features = inputs->features;
  if (!inputs->is_own) {
    if (e->input_norm.ctx != NULL) features = rms_norm(s, features, e->input_norm, e->eps);
    features = linear_apply(s, &e->fuse, features);
  }
  mlx_array embedded = e->has_embedding ? embedding_apply(s, &e->embedding, f->token_ids) : target_embed(f, d);
  mlx_array normed = rms_norm(s, features, e->hidden_norm, e->eps);
  mlx_array both[] = {rms_norm(s, embedded, e->blocks[0].attention_norm, e->eps), normed};
  mlx_array x = op_add(s, e->norm_before_residual ? normed : features, attention(f, e, &e->blocks[0], 0, &tables, op_concatenate(s, both, 2, 1)));
  x = mlp_block_apply(f, e->eps, &e->blocks[0].mlp, x);
  for (int i = 1; i < e->num_blocks; i++) {
    block* b = &e->blocks[i];
    x = op_add(s, x, attention(f, e, b, i, &tables, rms_norm(s, x, b->attention_norm, e->eps)));
    x = mlp_block_apply(f, e->eps, &b->mlp, x);
  }
  return x;
}

/* Logits [rows, draft vocabulary], the tokens of its entries. */
static void spread(const void* params, const host_tensor* inputs, void* output) {
  int vocab = *(const int*)params, draft_vocab = inputs[1].shape[0];
  const int32_t* tokens = inputs[1].data;
  for (int row = 0; row < inputs[0].shape[0]; row++) {
    const float* drafts = (const float*)inputs[0].data + row * inputs[0].strides[0];
    float* all = (float*)output + (size_t)row * (size_t)vocab;
    for (int i = 0; i < vocab; i++) all[i] = -INFINITY;
    for (int i = 0; i < draft_vocab; i++) all[tokens[i]] = drafts[i * inputs[0].strides[1]];
  }
}

/* The same logits over the model's vocabulary; what the head has no row for is never drafted. */
static mlx_array over_vocabulary(scope* s, mlx_array drafts, mlx_array tokens, int vocab) {
  if (s->status != RL_OK) return mlx_array_empty;
  int num_rows = mlx_array_dim(drafts, 0);
  mlx_dtype dtype = mlx_array_dtype(drafts);
  if (host_ops_available(s) && dtype == MLX_FLOAT32)
    return op_host(s, spread, &vocab, sizeof vocab, (const mlx_array[]){drafts, tokens}, 2, SHAPE(num_rows, vocab), dtype);
  mlx_array absent = op_add(s, op_zeros(s, SHAPE(num_rows, vocab), dtype), op_scalar(s, -INFINITY, dtype));
  mlx_array updates = op_expand(s, op_transpose(s, drafts, SHAPE(1, 0)), 2); /* [draft vocabulary, rows, 1] */
  return op_scatter(s, absent, &tokens, (const int[]){1}, 1, updates);
}

static mlx_array logits(forward* f, const rl_drafter* d, mlx_array hidden_rows) {
  const eagle3_weights* e = d->weights;
  scope* s = f->s;
  mlx_array x = rms_norm(s, hidden_rows, e->norm, e->eps);
  if (e->head.num_parts == 0) return target_logits(f, d, x);
  mlx_array drafts = linear_apply(s, &e->head, x);
  return e->tokens.ctx == NULL ? drafts : over_vocabulary(s, drafts, e->tokens, d->target->vocab_size);
}

const drafter_kind eagle3_drafter = {.name = "eagle3", .capture = RL_CAPTURE_LAYERS, .load = load, .unload = unload, .hidden = hidden, .logits = logits};
