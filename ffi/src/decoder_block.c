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
  return s->status == RL_OK && host_ops_available(s) && mlx_array_dtype(x) == MLX_FLOAT32 && is_host_linear(s, first) &&
         is_host_linear(s, second);
}

/* Adds an input; HOST_NONE when there is none. */
static int input_of(host_block_op* op, mlx_array array) {
  if (array.ctx == NULL) return HOST_NONE;
  op->inputs[op->num_inputs] = array;
  return op->num_inputs++;
}

static host_linear linear_of(host_block_op* op, const linear* l) {
  host_linear h = {.num_parts = l->num_parts, .weights = op->num_inputs};
  for (int i = 0; i < l->num_parts; i++) {
    h.parts[i] = matrix_host_weights(&l->parts[i]);
    input_of(op, l->parts[i].values);
  }
  h.bias = input_of(op, l->bias);
  return h;
}

/* Adds the step's scratch as an input: memory that stays for all layers is touched for the first time once a step. */
static int scratch_of(forward* f, host_block_op* op, size_t num_bytes) {
  if (f->scratch.ctx == NULL || mlx_array_nbytes(f->scratch) < num_bytes) {
    uint8_t* data;
    mlx_array fresh = array_uninitialized((const int[]){(int)(num_bytes / sizeof(float))}, 1, MLX_FLOAT32, &data);
    if (fresh.ctx == NULL) scope_fail(f->s, RL_ERR_MEMORY, "Out of memory for the %zu bytes of a step's scratch", num_bytes);
    else f->scratch = scope_keep(f->s, fresh);
  }
  return input_of(op, f->scratch);
}

static mlx_array host_attention_half(forward* f, const decoder* d, const attention_block* b, int layer, const rope_tables* tables, mlx_array x) {
  if (!attention_plan_tokens(f)) return mlx_array_empty;
  mlx_array* cached = f->cache->layers[layer].arrays;
  host_block_op op = {.kernel = host_attention_block,
                      .inputs = {x, cached[STATE_KEYS], cached[STATE_VALUES], f->scatter_slots, f->scatter_positions, f->host_last_seen,
                                 f->host_window_from},
                      .num_inputs = NUM_ATTENTION_INPUTS,
                      .starts_anew = layer > 0 && is_captured(f, layer - 1)};
  attention_block_params p = {.eps = d->eps, .num_kv_heads = d->num_kv_heads, .head_dim = d->head_dim};
  p.attention = (attention_params){scale_of(d, b), d->num_heads, f->cache->model->kv_is_8_bit, b->window};
  p.norm = input_of(&op, b->norm), p.qk_norm = input_of(&op, b->qk_norm), p.after_norm = input_of(&op, b->after_norm);
  p.cosines = p.sines = HOST_NONE;
  if (tables != NULL) p.cosines = input_of(&op, tables->cosines), p.sines = input_of(&op, tables->sines), p.rope_dims = rope_dims(tables);
  p.qkv = linear_of(&op, &b->qkv), p.output = linear_of(&op, &b->output);
  p.scratch = scratch_of(f, &op, attention_block_scratch_bytes(&p, f->num_tokens));
  op.params = &p, op.params_bytes = sizeof p;
  return op_host_block(f->s, &op);
}

static mlx_array host_mlp_half(forward* f, float eps, const mlp_block* b, mlx_array x) {
  host_block_op op = {.kernel = host_mlp_block, .inputs = {x}, .num_inputs = NUM_MLP_INPUTS};
  mlp_block_params p = {.eps = eps, .is_gelu = b->is_gelu};
  p.norm = input_of(&op, b->norm), p.after_norm = input_of(&op, b->after_norm);
  p.gate_up = linear_of(&op, &b->gate_up), p.down = linear_of(&op, &b->down);
  p.scratch = scratch_of(f, &op, mlp_block_scratch_bytes(&p, mlx_array_dim(x, 0)));
  op.params = &p, op.params_bytes = sizeof p;
  return op_host_block(f->s, &op);
}

/* ---- either ---- */

mlx_array attention_block_apply(forward* f, const decoder* d, const attention_block* b, int layer, const rope_tables* tables, mlx_array x) {
  bool is_host = is_host_block(f->s, x, &b->qkv, &b->output) && d->head_dim <= HOST_MAX_HEAD_DIM;
  return (is_host ? host_attention_half : graph_attention_block)(f, d, b, layer, tables, x);
}

mlx_array mlp_block_apply(forward* f, float eps, const mlp_block* b, mlx_array x) {
  return (is_host_block(f->s, x, &b->gate_up, &b->down) ? host_mlp_half : graph_mlp_block)(f, eps, b, x);
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
