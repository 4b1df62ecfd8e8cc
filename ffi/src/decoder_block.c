#include "decoder_block.h"

#include <math.h>

#include "array_memory.h"
#include "cache.h"
#include "cpu/decoder_block.h"
#include "matrix_product.h"

/* ---- as MLX's operations ---- */

static float scale_of(const decoder* d, const attention_block* b) { return b->scale != 0 ? b->scale : 1 / sqrtf((float)d->head_dim); }

static int rope_dims(const rope_tables* tables) { return 2 * mlx_array_dim(tables->cosines, 3); }

static mlx_array onto_residual(scope* s, float eps, mlx_array x, mlx_array result, mlx_array after_norm) {
  return op_add(s, x, after_norm.ctx != NULL ? rms_norm(s, result, after_norm, eps) : result);
}

static mlx_array graph_attention_block(forward* f, const decoder* d, const attention_block* b, int layer, const rope_tables* tables,
                                       mlx_array x) {
  scope* s = f->s;
  heads h = project_heads(s, d, &b->qkv, rms_norm(s, x, b->norm, d->eps));
  if (b->qk_norm.ctx != NULL) h.qk = head_norm(s, h.qk, b->qk_norm, d->eps);
  if (tables != NULL && s->status == RL_OK) h.qk = rope_apply(s, tables, h.qk, d->head_dim, rope_dims(tables));
  return onto_residual(s, d->eps, x, linear_apply(s, &b->output, attend_heads(f, d, layer, h, scale_of(d, b), b->window)), b->after_norm);
}

static mlx_array graph_mlp_block(forward* f, float eps, const mlp_block* b, mlx_array x) {
  scope* s = f->s;
  mlx_array gate_up = linear_apply(s, &b->gate_up, rms_norm(s, x, b->norm, eps));
  return onto_residual(s, eps, x, linear_apply(s, &b->down, b->is_gelu ? geglu(s, gate_up) : swiglu(s, gate_up)), b->after_norm);
}

/* ---- as one operation of our own ---- */

static bool is_host_linear(scope* s, const linear* l) {
  for (int i = 0; i < l->num_parts; i++)
    if (!matrix_is_host(s, &l->parts[i])) return false;
  return true;
}

static bool is_host_block(scope* s, mlx_array x, const linear* first, const linear* second) {
  return host_ops_available(s) && mlx_array_dtype(x) == MLX_FLOAT32 && is_host_linear(s, first) && is_host_linear(s, second);
}

static host_linear linear_of(scope* s, const linear* l) {
  host_linear h = {.num_parts = l->num_parts, .bias = host_tensor_of(s, l->bias).data};
  for (int i = 0; i < l->num_parts; i++) {
    h.parts[i] = matrix_host_weights(&l->parts[i]);
    h.parts[i].data = host_tensor_of(s, l->parts[i].values).data;
  }
  return h;
}

/* What the step's scratch has to have; it stays for all layers, so that memory is touched for the first time once a step. */
static mlx_array scratch_of(forward* f, size_t num_bytes) {
  if (f->scratch.ctx != NULL && mlx_array_nbytes(f->scratch) >= num_bytes) return f->scratch;
  uint8_t* data;
  mlx_array fresh = array_uninitialized((const int[]){(int)(num_bytes / sizeof(float))}, 1, MLX_FLOAT32, &data);
  if (fresh.ctx == NULL) scope_fail(f->s, RL_ERR_MEMORY, "Out of memory for the %zu bytes of a step's scratch", num_bytes);
  else f->scratch = scope_keep(f->s, fresh);
  return f->scratch;
}

/* Once for a model: a step does not look at the weights before it computes with them. */
static void prepare_attention(forward* f, const decoder* d, attention_block* b, mlx_array x) {
  scope* s = f->s;
  b->is_host = is_host_block(s, x, &b->qkv, &b->output) && d->head_dim <= HOST_MAX_HEAD_DIM;
  if (b->is_host) b->host = (attention_block_params){.eps = d->eps,
                                     .attention = {scale_of(d, b), d->num_heads, f->cache->model->kv_is_8_bit, b->window},
                                     .num_kv_heads = d->num_kv_heads,
                                     .head_dim = d->head_dim,
                                     .norm = host_tensor_of(s, b->norm),
                                     .qk_norm = host_tensor_of(s, b->qk_norm),
                                     .after_norm = host_tensor_of(s, b->after_norm),
                                     .qkv = linear_of(s, &b->qkv),
                                     .output = linear_of(s, &b->output)};
  b->is_prepared = s->status == RL_OK;
}

static mlx_array host_attention_half(forward* f, const attention_block* b, int layer, const rope_tables* tables, mlx_array x) {
  if (!attention_plan_tokens(f)) return mlx_array_empty;
  mlx_array* cached = f->cache->layers[layer].arrays;
  rope_tables turns = tables != NULL ? *tables : (rope_tables){0};
  host_block_op op = {.kernel = host_attention_block,
                      .params = &b->host,
                      .inputs = {x, cached[STATE_KEYS], cached[STATE_VALUES], f->scatter_slots, f->scatter_positions, f->host_last_seen,
                                 f->host_window_from, scratch_of(f, attention_block_scratch_bytes(&b->host, f->num_tokens)), turns.cosines,
                                 turns.sines},
                      .num_inputs = NUM_ATTENTION_INPUTS,
                      .starts_anew = layer > 0 && is_captured(f, layer - 1)};
  return op_host_block(f->s, &op);
}

static void prepare_mlp(scope* s, float eps, mlp_block* b, mlx_array x) {
  b->is_host = is_host_block(s, x, &b->gate_up, &b->down);
  if (b->is_host) b->host = (mlp_block_params){.eps = eps,
                               .is_gelu = b->is_gelu,
                               .norm = host_tensor_of(s, b->norm),
                               .after_norm = host_tensor_of(s, b->after_norm),
                               .gate_up = linear_of(s, &b->gate_up),
                               .down = linear_of(s, &b->down)};
  b->is_prepared = s->status == RL_OK;
}

static mlx_array host_mlp_half(forward* f, const mlp_block* b, mlx_array x) {
  host_block_op op = {.kernel = host_mlp_block,
                      .params = &b->host,
                      .inputs = {x, scratch_of(f, mlp_block_scratch_bytes(&b->host, mlx_array_dim(x, 0)))},
                      .num_inputs = NUM_MLP_INPUTS};
  return op_host_block(f->s, &op);
}

/* ---- either ---- */

mlx_array attention_block_apply(forward* f, const decoder* d, attention_block* b, int layer, const rope_tables* tables, mlx_array x) {
  if (f->s->status != RL_OK) return mlx_array_empty;
  if (!b->is_prepared) prepare_attention(f, d, b, x);
  return b->is_host ? host_attention_half(f, b, layer, tables, x) : graph_attention_block(f, d, b, layer, tables, x);
}

mlx_array mlp_block_apply(forward* f, float eps, mlp_block* b, mlx_array x) {
  if (f->s->status != RL_OK) return mlx_array_empty;
  if (!b->is_prepared) prepare_mlp(f->s, eps, b, x);
  return b->is_host ? host_mlp_half(f, b, x) : graph_mlp_block(f, eps, b, x);
}

void attention_block_free(attention_block* b) {
  array_free(&b->norm);
  array_free(&b->qk_norm);
  array_free(&b->after_norm);
  linear_free(&b->qkv);
  linear_free(&b->output);
}

void mlp_block_free(mlp_block* b) {
  array_free(&b->norm);
  array_free(&b->after_norm);
  linear_free(&b->gate_up);
  linear_free(&b->down);
}
