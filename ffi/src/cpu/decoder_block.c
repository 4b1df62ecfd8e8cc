#include "decoder_block.h"

#include "elementwise.h"

/* ---- scratch: planned by the same calls that use it ---- */

typedef struct arena {
  float* base; /* NULL while sizes are added up */
  size_t used;
} arena;

/* Everything begins at a line of the cache, where products read it fastest. */
enum { ALIGNED_FLOATS = 16 };

static arena arena_at(void* scratch) {
  uintptr_t line = ALIGNED_FLOATS * sizeof(float);
  return (arena){.base = (float*)(((uintptr_t)scratch + line - 1) / line * line)};
}

/* With what it takes to begin at a line. */
static size_t scratch_bytes(const arena* a) { return (a->used + ALIGNED_FLOATS) * sizeof(float); }

static float* take(arena* a, size_t count) {
  float* taken = a->base != NULL ? a->base + a->used : NULL;
  a->used += (count + ALIGNED_FLOATS - 1) / ALIGNED_FLOATS * ALIGNED_FLOATS;
  return taken;
}

static int out_size(const host_linear* l) {
  int size = 0;
  for (int i = 0; i < l->num_parts; i++) size += l->parts[i].n;
  return size;
}

static int in_size(const host_linear* l) { return l->parts[0].k; }

/* ---- parts of both halves ---- */

static host_tensor matrix_view(const float* data, int rows, int columns) {
  return (host_tensor){(void*)data, 2, {rows, columns}, {columns, 1}};
}

/* Some heads of rows that lie `row_floats` apart. */
static host_tensor heads_view(const float* data, int tokens, int heads, int head_dim, int row_floats) {
  return (host_tensor){(void*)data, 3, {tokens, heads, head_dim}, {row_floats, head_dim, 1}};
}

static void normalize(host_tensor x, const host_tensor* weight, float eps, float* y) {
  rms_norm_params params = {eps, 1};
  host_rms_norm(&params, (const host_tensor[]){x, *weight}, y);
}

/* y [tokens, out] = residual + linear(x), or linear(x) alone. */
static void apply(const host_linear* l, const float* x, int tokens, const host_tensor* residual, float* y) {
  int column = 0, out = out_size(l);
  for (int i = 0; i < l->num_parts; i++) {
    const product_weights* w = &l->parts[i];
    const float* bias = l->bias != NULL ? l->bias + column : NULL;
    const float* onto = residual != NULL ? (const float*)residual->data + column : NULL;
    product_onto(w, x, w->k, tokens, bias, onto, onto != NULL ? residual->strides[0] : 0, y + column, out);
    column += w->n;
  }
}

/* y = x + after_norm(linear(values)); `product` and `normed` [tokens, out] are used where there is a norm. y may be x. */
static void apply_onto_residual(const host_linear* l, const host_tensor* x, const float* values, const host_tensor* after_norm, float eps,
                                float* product, float* normed, float* y) {
  int tokens = x->shape[0], out = out_size(l);
  bool is_normed = after_norm->data != NULL;
  apply(l, values, tokens, is_normed ? NULL : x, is_normed ? product : y);
  if (!is_normed) return;
  normalize(matrix_view(product, tokens, out), after_norm, eps, normed);
  host_add(NULL, (const host_tensor[]){*x, matrix_view(normed, tokens, out)}, y);
}

/* ---- attention ---- */

typedef struct attention_buffers {
  float *normed, *qkv, *normed_heads, *turned, *attended, *product;
} attention_buffers;

static attention_buffers plan_attention(const attention_block_params* p, size_t tokens, arena* a) {
  size_t heads = (size_t)(p->attention.num_heads + p->num_kv_heads) * (size_t)p->head_dim;
  return (attention_buffers){
      .normed = take(a, tokens * (size_t)in_size(&p->qkv)),
      .qkv = take(a, tokens * (size_t)out_size(&p->qkv)),
      .normed_heads = take(a, p->qk_norm.data != NULL ? tokens * heads : 0),
      .turned = take(a, tokens * heads),
      .attended = take(a, tokens * (size_t)in_size(&p->output)),
      .product = take(a, p->after_norm.data != NULL ? tokens * (size_t)out_size(&p->output) : 0),
  };
}

size_t attention_block_scratch_bytes(const attention_block_params* p, int num_tokens) {
  arena a = {0};
  plan_attention(p, (size_t)num_tokens, &a);
  return scratch_bytes(&a);
}

/* Queries and keys of the product, normalized and turned. */
static host_tensor position_heads(const attention_block_params* p, const host_tensor* inputs, const attention_buffers* b, int tokens) {
  int num = p->attention.num_heads + p->num_kv_heads, dim = p->head_dim;
  host_tensor heads = heads_view(b->qkv, tokens, num, dim, out_size(&p->qkv));
  if (p->qk_norm.data != NULL) {
    normalize(heads, &p->qk_norm, p->eps, b->normed_heads);
    heads = heads_view(b->normed_heads, tokens, num, dim, num * dim);
  }
  const host_tensor *cosines = &inputs[INPUT_COSINES], *sines = &inputs[INPUT_SINES];
  if (cosines->data != NULL) {
    rope_params params = {2 * cosines->shape[3]};
    host_rope(&params, (const host_tensor[]){heads, *cosines, *sines}, b->turned);
    heads = heads_view(b->turned, tokens, num, dim, num * dim);
  }
  return heads;
}

void host_attention_block(const void* params, const host_tensor* inputs, void* output) {
  const attention_block_params* p = params;
  const host_tensor *slots = &inputs[INPUT_SLOTS], *positions = &inputs[INPUT_POSITIONS];
  int tokens = inputs[INPUT_X].shape[0], qkv_size = out_size(&p->qkv), num_qk = p->attention.num_heads + p->num_kv_heads;
  arena scratch = arena_at(inputs[INPUT_ATTENTION_SCRATCH].data);
  attention_buffers b = plan_attention(p, (size_t)tokens, &scratch);
  normalize(inputs[INPUT_X], &p->norm, p->eps, b.normed);
  apply(&p->qkv, b.normed, tokens, NULL, b.qkv);
  host_tensor heads = position_heads(p, inputs, &b, tokens), keys = inputs[INPUT_KEYS], values = inputs[INPUT_VALUES];
  host_tensor new_values = heads_view(b.qkv + num_qk * p->head_dim, tokens, p->num_kv_heads, p->head_dim, qkv_size);
  write_cache_params of_keys = {p->attention.num_heads, p->attention.is_8_bit}, of_values = {0, p->attention.is_8_bit};
  host_write_cache(&of_keys, (const host_tensor[]){keys, heads, *slots, *positions}, keys.data);
  host_write_cache(&of_values, (const host_tensor[]){values, new_values, *slots, *positions}, values.data);
  const host_tensor seen[] = {heads, keys, values, *slots, inputs[INPUT_LAST_SEEN], inputs[INPUT_WINDOW_FROM]};
  host_attention(&p->attention, seen, b.attended);
  apply_onto_residual(&p->output, &inputs[INPUT_X], b.attended, &p->after_norm, p->eps, b.product, b.normed, output);
}

/* ---- MLP ---- */

typedef struct mlp_buffers {
  float *normed, *gate_up, *gated, *product;
} mlp_buffers;

static mlp_buffers plan_mlp(const mlp_block_params* p, size_t tokens, arena* a) {
  return (mlp_buffers){
      .normed = take(a, tokens * (size_t)in_size(&p->gate_up)),
      .gate_up = take(a, tokens * (size_t)out_size(&p->gate_up)),
      .gated = take(a, tokens * (size_t)in_size(&p->down)),
      .product = take(a, p->after_norm.data != NULL ? tokens * (size_t)out_size(&p->down) : 0),
  };
}

size_t mlp_block_scratch_bytes(const mlp_block_params* p, int num_tokens) {
  arena a = {0};
  plan_mlp(p, (size_t)num_tokens, &a);
  return scratch_bytes(&a);
}

void host_mlp_block(const void* params, const host_tensor* inputs, void* output) {
  const mlp_block_params* p = params;
  int tokens = inputs[INPUT_X].shape[0];
  arena scratch = arena_at(inputs[INPUT_MLP_SCRATCH].data);
  mlp_buffers b = plan_mlp(p, (size_t)tokens, &scratch);
  normalize(inputs[INPUT_X], &p->norm, p->eps, b.normed);
  apply(&p->gate_up, b.normed, tokens, NULL, b.gate_up);
  host_tensor gate_up = matrix_view(b.gate_up, tokens, out_size(&p->gate_up));
  (p->is_gelu ? host_geglu : host_swiglu)(NULL, &gate_up, b.gated);
  apply_onto_residual(&p->down, &inputs[INPUT_X], b.gated, &p->after_norm, p->eps, b.product, b.normed, output);
}
