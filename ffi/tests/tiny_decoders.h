/* Tiny random checkpoints of the attention-only architectures. To add one: a line in `kinds`, and its tensors where they differ from
 * Llama's. */
#ifndef ROWLOCK_TINY_DECODERS_H
#define ROWLOCK_TINY_DECODERS_H

#include <stdbool.h>

#include "tiny_checkpoint.h"

enum { HIDDEN = 24, INTERMEDIATE = 40, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 6, LAYERS = 2, EXPERTS = 4, EXPERT_SIZE = 10 };

static const char common_config[] =
    "vocab_size=37\nhidden_size=24\nintermediate_size=40\nnum_hidden_layers=2\nnum_attention_heads=4\nnum_key_value_heads=2\nhead_dim=6\n"
    "rms_norm_eps=1e-5\nrope_theta=10000\nrope_type=default\nquant_bits=0\nquant_group_size=0\n";

typedef struct kind {
  const char *model_type, *config;
  bool has_qkv_bias, has_qk_norm, is_fused, has_experts, has_stacked_experts, has_outer_norms;
} kind;

static const kind kinds[] = {
    {.model_type = "llama", .config = "tie_word_embeddings=true\n"},
    {.model_type = "llama", .config = "tie_word_embeddings=false\nsliding_window=5\nlayer_types=full_attention,sliding_attention\n"},
    {.model_type = "qwen2", .config = "tie_word_embeddings=true\n", .has_qkv_bias = true},
    {.model_type = "qwen3", .config = "tie_word_embeddings=false\n", .has_qk_norm = true},
    {.model_type = "smollm3", .config = "tie_word_embeddings=true\nno_rope_layers=1,0\n"},
    {.model_type = "phi3", .config = "tie_word_embeddings=false\n", .is_fused = true},
    {.model_type = "qwen3_moe",
     .config = "tie_word_embeddings=true\nnum_experts=4\nnum_experts_per_tok=2\nmoe_intermediate_size=10\nnorm_topk_prob=true\n"
               "sparse_layers=1,0\n",
     .has_qk_norm = true,
     .has_experts = true},
    {.model_type = "qwen3_moe",
     .config = "tie_word_embeddings=true\nnum_experts=4\nnum_experts_per_tok=3\nmoe_intermediate_size=10\nsparse_layers=1,0\n",
     .has_qk_norm = true,
     .has_experts = true,
     .has_stacked_experts = true},
    {.model_type = "gemma3_text",
     .config = "tie_word_embeddings=true\nnorm_offset=1\nquery_pre_attn_scalar=6\nrope_local_base_freq=100\nsliding_window=5\n"
               "layer_types=sliding_attention,full_attention\n",
     .has_qk_norm = true,
     .has_outer_norms = true},
};

static void write_norm(tiny_checkpoint* c, int layer, const char* name, int size, float center) {
  tiny_tensor(c, size, 0, 0.2f, center, "model.layers.%d.%s.weight", layer, name);
}

static void write_linear(tiny_checkpoint* c, int layer, const char* name, int rows, int columns, bool has_bias) {
  tiny_tensor(c, rows, columns, 1, 0, "model.layers.%d.%s.weight", layer, name);
  if (has_bias) tiny_tensor(c, rows, 0, 1, 0, "model.layers.%d.%s.bias", layer, name);
}

/* All experts of one projection: one tensor, or one of each. */
static void write_experts(tiny_checkpoint* c, const kind* k, const char* name, int rows, int columns) {
  for (int i = 0; i < EXPERTS && !k->has_stacked_experts; i++)
    tiny_tensor(c, rows, columns, 1, 0, "model.layers.0.mlp.experts.%d.%s.weight", i, name);
  if (!k->has_stacked_experts) return;
  char full[128], shape[48];
  for (int i = 0; i < EXPERTS * rows * columns; i++) fwrite(&(float){tiny_random(c)}, sizeof(float), 1, c->file);
  snprintf(full, sizeof full, "model.layers.0.mlp.switch_mlp.%s.weight", name);
  snprintf(shape, sizeof shape, "%d,%d,%d", EXPERTS, rows, columns);
  tiny_line(c, full, "F32", shape, EXPERTS * rows * columns * 4);
}

static void write_attention(tiny_checkpoint* c, const kind* k, int i) {
  int q = HEADS * HEAD_DIM, kv = KV_HEADS * HEAD_DIM;
  float center = k->has_outer_norms ? 0 : 1;
  if (k->is_fused) {
    write_linear(c, i, "self_attn.qkv_proj", q + 2 * kv, HIDDEN, false);
  } else {
    write_linear(c, i, "self_attn.q_proj", q, HIDDEN, k->has_qkv_bias);
    write_linear(c, i, "self_attn.k_proj", kv, HIDDEN, k->has_qkv_bias);
    write_linear(c, i, "self_attn.v_proj", kv, HIDDEN, k->has_qkv_bias);
  }
  if (k->has_qk_norm) write_norm(c, i, "self_attn.q_norm", HEAD_DIM, center), write_norm(c, i, "self_attn.k_norm", HEAD_DIM, center);
  write_linear(c, i, "self_attn.o_proj", HIDDEN, q, false);
}

static void write_mlp(tiny_checkpoint* c, const kind* k, int i) {
  if (k->has_experts && i == 0) {
    write_linear(c, i, "mlp.gate", EXPERTS, HIDDEN, false);
    write_experts(c, k, "gate_proj", EXPERT_SIZE, HIDDEN);
    write_experts(c, k, "up_proj", EXPERT_SIZE, HIDDEN);
    write_experts(c, k, "down_proj", HIDDEN, EXPERT_SIZE);
    return;
  }
  if (k->is_fused) write_linear(c, i, "mlp.gate_up_proj", 2 * INTERMEDIATE, HIDDEN, false);
  else write_linear(c, i, "mlp.gate_proj", INTERMEDIATE, HIDDEN, false), write_linear(c, i, "mlp.up_proj", INTERMEDIATE, HIDDEN, false);
  write_linear(c, i, "mlp.down_proj", HIDDEN, INTERMEDIATE, false);
}

static void write_checkpoint(tiny_checkpoint* c, const kind* k) {
  float center = k->has_outer_norms ? 0 : 1;
  tiny_checkpoint_open(c, 7);
  tiny_tensor(c, TINY_VOCAB, HIDDEN, 4, 0, "model.embed_tokens.weight");
  tiny_tensor(c, HIDDEN, 0, 0.2f, center, "model.norm.weight");
  if (strstr(k->config, "tie_word_embeddings=false") != NULL) tiny_tensor(c, TINY_VOCAB, HIDDEN, 4, 0, "lm_head.weight");
  for (int i = 0; i < LAYERS; i++) {
    write_norm(c, i, "input_layernorm", HIDDEN, center);
    write_norm(c, i, "post_attention_layernorm", HIDDEN, center);
    if (k->has_outer_norms) write_norm(c, i, "pre_feedforward_layernorm", HIDDEN, center);
    if (k->has_outer_norms) write_norm(c, i, "post_feedforward_layernorm", HIDDEN, center);
    write_attention(c, k, i);
    write_mlp(c, k, i);
  }
  fclose(c->file);
}

#endif
