#include "drafter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cache.h"
#include "../compute_type.h"

static const drafter_kind* const kinds[] = {&mtp_drafter, &eagle3_drafter, &dflash_drafter};

static const drafter_kind* find_kind(const char* name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
  return NULL;
}

mlx_array target_embed(forward* f, const rl_drafter* d) { return d->target->architecture->embed(f, d->target->weights, f->token_ids); }

mlx_array target_logits(forward* f, const rl_drafter* d, mlx_array hidden) {
  return d->target->architecture->logits(f, d->target->weights, hidden);
}

void drafter_size(rl_drafter* d, config* c, int target_width, int own_width) {
  d->base.num_layers = config_int(c, "num_hidden_layers", 1, 1000);
  d->base.num_kv_heads = config_int(c, "num_key_value_heads", 1, 1 << 14);
  d->base.head_dim = config_int(c, "head_dim", 2, 1 << 14);
  d->base.hidden_size = config_int(c, "hidden_size", 1, 1 << 20);
  d->target_width = target_width, d->own_width = own_width;
}

linear draft_linear(weights* w, const char* layer, const char* const* names, const int* rows, int num_parts, int columns, bool has_bias) {
  projection parts[PROJECTION_MAX_PARTS];
  for (int i = 0; i < num_parts; i++) {
    parts[i] = (projection){.rows = rows[i]};
    snprintf(parts[i].module, sizeof parts[i].module, "%s.%s", layer, names[i]);
  }
  return weights_linear(w, parts, num_parts, columns, has_bias);
}

mlp_block draft_mlp_load(weights* w, const char* layer, int hidden, float norm_offset) {
  char name[160];
  int intermediate = config_int(w->config, "intermediate_size", 1, 1 << 22);
  if (w->config->status != RL_OK) return (mlp_block){0};
  snprintf(name, sizeof name, "%s.post_attention_layernorm.weight", layer);
  return (mlp_block){
      .norm = weights_norm(w, name, hidden, norm_offset),
      .gate_up = draft_linear(w, layer, (const char* const[]){"mlp.gate_proj", "mlp.up_proj"}, (const int[]){intermediate, intermediate}, 2, hidden, false),
      .down = draft_linear(w, layer, (const char* const[]){"mlp.down_proj"}, &hidden, 1, intermediate, false),
  };
}

/* 0 without the key. */
static int dense_bits(config* c) {
  int bits = config_has(c, "dense_bits") ? config_int(c, "dense_bits", 4, 8) : 0;
  if (c->status == RL_OK && bits != 0 && bits != 4 && bits != 8) c->status = rl_fail(RL_ERR_MODEL, "dense_bits is %d, expected 4 or 8", bits);
  return bits;
}

static int32_t load(rl_drafter* d, config* c, const char* tensors) {
  d->kind = find_kind(config_text(c, "drafter_kind"));
  if (d->kind == NULL) return rl_fail(RL_ERR_MODEL, "The drafter_kind is %s, expected mtp, eagle3 or dflash", config_text(c, "drafter_kind"));
  if (d->target->architecture->embed == NULL)
    return rl_fail(RL_ERR_MODEL, "Models of type %s take no drafters", d->target->architecture->model_type);
  tensor_table table;
  compute_type type;
  int32_t status = tensors_open(&table, tensors);
  if (status == RL_OK) status = choose_compute_type(c, &table, d->base.is_gpu, d->base.uses_host_ops, &type);
  if (status == RL_OK) {
    weights w = {.config = c, .tensors = &table, .dtype = d->base.dtype, .keeps_stored = type.keeps_stored,
                 .uses_host_ops = d->base.uses_host_ops && d->base.dtype == MLX_FLOAT32,
                 .dense_bits = dense_bits(c)};
    d->weights = d->kind->load(&w, d);
    d->base.weight_bytes = w.num_bytes;
    status = w.status != RL_OK ? w.status : c->status;
  }
  tensors_close(&table);
  return status == RL_OK ? model_plan_states(&d->base) : status;
}

int32_t rl_drafter_load(const char* config_lines, const char* tensors, rl_model* model, rl_drafter** out) {
  if (config_lines == NULL || tensors == NULL || model == NULL || out == NULL)
    return rl_fail(RL_ERR_ARGUMENT, "rl_drafter_load: no argument may be NULL");
  int32_t status = model_check_thread(model);
  config c;
  if (status == RL_OK) status = config_parse(&c, config_lines);
  if (status != RL_OK) return status;
  rl_drafter* d = calloc(1, sizeof *d);
  if (d == NULL) return config_free(&c), rl_fail(RL_ERR_MEMORY, "Out of memory for a drafter");
  d->target = model;
  d->base = (rl_model){.owner = model->owner, .stream = model->stream, .is_gpu = model->is_gpu, .uses_host_ops = model->uses_host_ops,
                        .vocab_size = model->vocab_size, .dtype = model->dtype};
  status = load(d, &c, tensors);
  config_free(&c);
  if (status == RL_OK) return *out = d, RL_OK;
  rl_drafter_free(d);
  return status;
}

int32_t rl_drafter_free(rl_drafter* d) {
  if (d == NULL) return RL_OK;
  int32_t status = model_check_thread(&d->base);
  if (status != RL_OK) return status;
  /* What runs may point into the weights. */
  mlx_synchronize(d->base.stream);
  if (d->weights != NULL) d->kind->unload(d->weights);
  free(d->base.states);
  free(d);
  mlx_clear_cache();
  return RL_OK;
}

int32_t rl_drafter_info(const rl_drafter* d, int64_t* out) {
  if (d == NULL || out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_drafter_info: drafter and out must not be NULL");
  out[0] = (int64_t)d->base.weight_bytes;
  out[1] = d->target_width;
  out[2] = d->own_width;
  out[3] = model_kv_bytes(&d->base);
  out[4] = d->kind->capture;
  out[5] = cache_is_sparse(&d->base);
  return RL_OK;
}

int32_t rl_drafter_cache_new(rl_drafter* d, rl_cache** out) {
  if (d == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_drafter_cache_new: drafter must not be NULL");
  return rl_cache_new(&d->base, out);
}
