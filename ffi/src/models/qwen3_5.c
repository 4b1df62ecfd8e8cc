/* Qwen3.5 text models: three of four layers mix tokens by a gated delta rule (Yang et al., arXiv 2412.06464), the others by gated attention
 * with rotary positions on a part of each head. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../delta_net.h"
#include "../model.h"
#include "qwen3_5_attention.h"

typedef struct delta_net {
  linear qkv_z, beta_decay, output;
  mlx_array kernel;               /* [taps, channels] */
  mlx_array decay_rate, time_bias; /* [value heads] */
  mlx_array norm;                 /* [value dim] */
} delta_net;

typedef struct block {
  bool is_recurrent;
  mlx_array mixer_norm, mlp_norm;
  delta_net delta;
  gated_attention attention;
  linear gate_up, down;
} block;

typedef struct qwen3_5_weights {
  int num_layers, num_key_heads, num_value_heads, key_dim, value_dim, num_taps;
  float eps;
  embedding embedding;
  mlx_array norm;
  linear head;
  rope rope;
  block* blocks;
  char prefix[32];   /* of the text model's tensors */
  float norm_offset; /* norms are stored as their distance from it */
} qwen3_5_weights;

#define NAME(...) (snprintf(name, sizeof name, __VA_ARGS__), name)

static int num_channels(const qwen3_5_weights* q) { return 2 * q->num_key_heads * q->key_dim + q->num_value_heads * q->value_dim; }

/* The i-th of the comma-joined layer types. */
static bool is_layer_type(const char* layer_types, int i, const char* type) {
  for (; i > 0 && layer_types != NULL; i--) layer_types = strchr(layer_types, ',') != NULL ? strchr(layer_types, ',') + 1 : NULL;
  size_t length = strlen(type);
  return layer_types != NULL && strncmp(layer_types, type, length) == 0 && (layer_types[length] == ',' || layer_types[length] == '\0');
}

/* A required dense tensor of `count` values, as float32 of the given shape; `map` is applied to each value. */
static mlx_array read_floats(weights* w, const char* name, int count, const int* shape, int num_dims, float (*map)(float)) {
  const tensor* t = w->status == RL_OK ? tensors_find(w->tensors, name) : NULL;
  bool fits = t != NULL && t->type->to_float != NULL && t->type->block_size == 1 && t->shape[0] == shape[0] &&
              t->num_bytes == (uint64_t)count * (uint64_t)t->type->block_bytes;
  if (!fits) {
    weights_fail(w, "The checkpoint has no tensor %s of %d numbers in %d rows", name, count, shape[0]);
    return mlx_array_empty;
  }
  float* values = malloc((size_t)count * sizeof *values);
  if (values == NULL) return weights_fail(w, "Out of memory for tensor %s", name), mlx_array_empty;
  t->type->to_float(t->data, values, (size_t)count);
  for (int i = 0; map != NULL && i < count; i++) values[i] = map(values[i]);
  w->num_bytes += (uint64_t)count * sizeof *values;
  return mlx_array_new_data_managed(values, shape, num_dims, MLX_FLOAT32, free);
}

static float negative_exp(float value) { return -expf(value); }

/* Both layouts of the kernel, [channels, 1, taps] and [channels, taps, 1], lie in memory as [channels, taps]. */
static mlx_array read_kernel(weights* w, const char* name, int channels, int taps) {
  mlx_array kernel = read_floats(w, name, channels * taps, SHAPE(channels, taps), NULL);
  if (kernel.ctx == NULL) return kernel;
  mlx_stream cpu = mlx_default_cpu_stream_new();
  scope s = scope_open(cpu);
  mlx_array transposed = scope_release(&s, op_copy(&s, op_transpose(&s, kernel, SHAPE(1, 0))));
  scope_close(&s);
  mlx_array_free(kernel);
  mlx_stream_free(cpu);
  if (s.status != RL_OK) w->status = s.status;
  return transposed;
}

static projection part(const char* module, const char* name, int rows) {
  projection p = {.rows = rows};
  snprintf(p.module, sizeof p.module, "%s.%s", module, name);
  return p;
}

static delta_net load_delta_net(weights* w, const qwen3_5_weights* q, const char* module, int hidden) {
  char name[128];
  int value_size = q->num_value_heads * q->value_dim;
  projection qkv_z[] = {part(module, "in_proj_qkv", num_channels(q)), part(module, "in_proj_z", value_size)};
  projection beta_decay[] = {part(module, "in_proj_b", q->num_value_heads), part(module, "in_proj_a", q->num_value_heads)};
  projection output = part(module, "out_proj", hidden);
  delta_net d = {.qkv_z = weights_linear(w, qkv_z, 2, hidden, false), .beta_decay = weights_linear(w, beta_decay, 2, hidden, false),
                 .output = weights_linear(w, &output, 1, value_size, false)};
  d.kernel = read_kernel(w, NAME("%s.conv1d.weight", module), num_channels(q), q->num_taps);
  d.decay_rate = read_floats(w, NAME("%s.A_log", module), q->num_value_heads, SHAPE(q->num_value_heads), negative_exp);
  d.time_bias = read_floats(w, NAME("%s.dt_bias", module), q->num_value_heads, SHAPE(q->num_value_heads), NULL);
  d.norm = read_floats(w, NAME("%s.norm.weight", module), q->value_dim, SHAPE(q->value_dim), NULL);
  return d;
}

static void load_block(weights* w, const qwen3_5_weights* q, block* b, int i) {
  config* c = w->config;
  char module[64], name[96];
  int hidden = config_int(c, "hidden_size", 1, 1 << 20), intermediate = config_int(c, "intermediate_size", 1, 1 << 22);
  snprintf(module, sizeof module, "%slayers.%d", q->prefix, i);
  b->is_recurrent = is_layer_type(config_text(c, "layer_types"), i, "linear_attention");
  if (!b->is_recurrent && !is_layer_type(config_text(c, "layer_types"), i, "full_attention"))
    weights_fail(w, "layer_types has no linear_attention or full_attention for layer %d", i);
  b->mixer_norm = weights_norm(w, NAME("%s.input_layernorm.weight", module), hidden, q->norm_offset);
  b->mlp_norm = weights_norm(w, NAME("%s.post_attention_layernorm.weight", module), hidden, q->norm_offset);
  if (b->is_recurrent) b->delta = load_delta_net(w, q, NAME("%s.linear_attn", module), hidden);
  else b->attention = gated_attention_load(w, NAME("%s.self_attn", module), hidden, q->norm_offset);
  projection gate_up[] = {part(module, "mlp.gate_proj", intermediate), part(module, "mlp.up_proj", intermediate)};
  projection down = part(module, "mlp.down_proj", hidden);
  b->gate_up = weights_linear(w, gate_up, 2, hidden, false);
  b->down = weights_linear(w, &down, 1, intermediate, false);
}

/* Hugging Face's layout stores norms as their distance from 1; converted ones, told by their names, hold them as they are used. Some early
 * conversions kept the stored norms, and the kernel's layout with them. */
static void find_layout(weights* w, qwen3_5_weights* q) {
  static const char* const prefixes[] = {"model.language_model.", "language_model.model.", "model."};
  char name[160];
  for (int i = 0; i < 3 && q->prefix[0] == '\0'; i++)
    if (weights_has(w, NAME("%sembed_tokens.weight", prefixes[i]))) snprintf(q->prefix, sizeof q->prefix, "%s", prefixes[i]);
  if (q->prefix[0] == '\0') weights_fail(w, "The checkpoint has no tensor model.language_model.embed_tokens.weight");
  q->norm_offset = strcmp(q->prefix, prefixes[1]) == 0 ? 0 : 1;
  for (int i = 0; i < 1000; i++) {
    const tensor* kernel = tensors_find(w->tensors, NAME("%slayers.%d.linear_attn.conv1d.weight", q->prefix, i));
    if (kernel != NULL && kernel->num_dims == 3 && kernel->shape[2] != 1) q->norm_offset = 1;
  }
}

static void read_sizes(config* c, qwen3_5_weights* q) {
  q->num_key_heads = config_int(c, "linear_num_key_heads", 1, 1 << 12);
  q->num_value_heads = config_int(c, "linear_num_value_heads", 1, 1 << 12);
  q->key_dim = config_int(c, "linear_key_head_dim", 1, 1 << 12);
  q->value_dim = config_int(c, "linear_value_head_dim", 1, 1 << 12);
  q->num_taps = config_int(c, "linear_conv_kernel_dim", 2, 64);
  q->eps = (float)config_float(c, "rms_norm_eps", 0, 1);
}

static void* load(weights* w) {
  config* c = w->config;
  char name[160];
  qwen3_5_weights* q = calloc(1, sizeof *q);
  if (q == NULL) return weights_fail(w, "Out of memory for the model"), NULL;
  read_sizes(c, q);
  int hidden = config_int(c, "hidden_size", 1, 1 << 20), vocab = config_int(c, "vocab_size", 1, 1 << 24);
  int num_layers = config_int(c, "num_hidden_layers", 1, 1000), rotary_dims = config_int(c, "rotary_dims", 2, 1 << 14);
  if (c->status == RL_OK && q->num_value_heads % q->num_key_heads != 0)
    weights_fail(w, "linear_num_value_heads is %d, no multiple of linear_num_key_heads %d", q->num_value_heads, q->num_key_heads);
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
    linear* linears[] = {&b->delta.qkv_z, &b->delta.beta_decay, &b->delta.output, &b->gate_up, &b->down};
    mlx_array* arrays[] = {&b->mixer_norm, &b->mlp_norm, &b->delta.kernel, &b->delta.decay_rate, &b->delta.time_bias, &b->delta.norm};
    for (size_t j = 0; j < sizeof linears / sizeof *linears; j++) linear_free(linears[j]);
    for (size_t j = 0; j < sizeof arrays / sizeof *arrays; j++) array_free(arrays[j]);
    gated_attention_free(&b->attention);
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
  if (!q->blocks[layer].is_recurrent) return;
  *state = (layer_state){.is_recurrent = true, .dtypes = {MLX_FLOAT32, MLX_FLOAT32},
                         .shapes = {{0, 1, q->num_taps - 1, num_channels(q)}, {0, q->num_value_heads, q->value_dim, q->key_dim}}};
}

/* Rows of x divided by their length times `scale` of the paper: rms_norm divides by the root of the mean, which is sqrt(dim) shorter. */
static mlx_array unit_rows(scope* s, mlx_array x, float scale) {
  int dim = s->status == RL_OK ? mlx_array_dim(x, 2) : 1;
  return op_multiply(s, rms_norm(s, x, mlx_array_empty, 1e-6f / (float)dim), op_scalar(s, scale / sqrtf((float)dim), MLX_FLOAT32));
}

static mlx_array heads_of(scope* s, mlx_array x, int start, int num_heads, int dim) {
  if (s->status != RL_OK) return mlx_array_empty;
  return op_reshape(s, op_slice(s, x, 1, start, start + num_heads * dim), SHAPE(mlx_array_dim(x, 0), num_heads, dim));
}

static mlx_array delta_net_apply(forward* f, const qwen3_5_weights* q, const delta_net* d, int layer, mlx_array x) {
  scope* s = f->s;
  int n = f->num_tokens, channels = num_channels(q), key_size = q->num_key_heads * q->key_dim, heads = q->num_value_heads;
  mlx_array qkv_z = op_cast(s, linear_apply(s, &d->qkv_z, x), MLX_FLOAT32);
  mlx_array beta_decay = op_cast(s, linear_apply(s, &d->beta_decay, x), MLX_FLOAT32);
  mlx_array qkv = op_silu(s, causal_convolution(f, layer, op_slice(s, qkv_z, 1, 0, channels), d->kernel));
  mlx_array steps = op_softplus(s, op_add(s, op_slice(s, beta_decay, 1, heads, 2 * heads), d->time_bias));
  delta_rule rule = {
      .queries = unit_rows(s, heads_of(s, qkv, 0, q->num_key_heads, q->key_dim), 1 / sqrtf((float)q->key_dim)),
      .keys = unit_rows(s, heads_of(s, qkv, key_size, q->num_key_heads, q->key_dim), 1),
      .values = heads_of(s, qkv, 2 * key_size, heads, q->value_dim),
      .betas = op_sigmoid(s, op_slice(s, beta_decay, 1, 0, heads)),
      .log_decays = op_multiply(s, steps, d->decay_rate),
  };
  mlx_array y = rms_norm(s, gated_delta_rule(f, layer, &rule), d->norm, q->eps);
  mlx_array gates = op_silu(s, heads_of(s, qkv_z, channels, heads, q->value_dim));
  y = op_reshape(s, op_multiply(s, y, gates), SHAPE(n, heads * q->value_dim));
  return linear_apply(s, &d->output, op_cast(s, y, f->model->dtype));
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
    mlx_array normed = rms_norm(s, x, b->mixer_norm, q->eps);
    x = op_add(s, x, b->is_recurrent ? delta_net_apply(f, q, &b->delta, i, normed) : gated_attention_apply(f, &b->attention, i, &tables, normed));
    x = op_add(s, x, linear_apply(s, &b->down, swiglu(s, linear_apply(s, &b->gate_up, rms_norm(s, x, b->mlp_norm, q->eps)))));
    capture_layer(f, i, x);
  }
  return rms_norm(s, x, q->norm, q->eps);
}

static mlx_array logits(forward* f, const void* loaded, mlx_array hidden_rows) {
  return linear_apply(f->s, &((const qwen3_5_weights*)loaded)->head, hidden_rows);
}

const architecture qwen3_5 = {"qwen3_5", load, unload, hidden, logits, embed, state};
