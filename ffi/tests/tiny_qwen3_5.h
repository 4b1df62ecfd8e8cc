/* A tiny Qwen3.5 checkpoint with random weights: two gated delta net layers, one of gated attention, and its MTP head. Every layer has an MLP
 * and a mixture of experts, of which the config chooses one. */
#ifndef ROWLOCK_TINY_QWEN3_5_H
#define ROWLOCK_TINY_QWEN3_5_H

#include "tiny_checkpoint.h"

enum { HYBRID_KEY_HEADS = 2, HYBRID_VALUE_HEADS = 4, HYBRID_KEY_DIM = 8, HYBRID_VALUE_DIM = 5, HYBRID_TAPS = 4, HYBRID_LAYERS = 3 };
enum { HYBRID_EXPERTS = 4, HYBRID_EXPERT_SIZE = 10, HYBRID_SHARED_SIZE = 12 };
enum { HYBRID_VALUES = HYBRID_VALUE_HEADS * HYBRID_VALUE_DIM, HYBRID_CHANNELS = 2 * HYBRID_KEY_HEADS * HYBRID_KEY_DIM + HYBRID_VALUES };

#define HYBRID_SIZES                                                                                                                     \
  "hidden_size=24\nintermediate_size=40\nnum_attention_heads=4\nnum_key_value_heads=2\nhead_dim=6\nrotary_dims=2\nrms_norm_eps=1e-6\n" \
  "rope_theta=10000\nrope_type=default\ndtype=float32\nquant_bits=0\nquant_group_size=0\n"

static const char hybrid_config[] =
    "model_type=qwen3_5\nvocab_size=37\nnum_hidden_layers=3\nlayer_types=linear_attention,linear_attention,full_attention\n"
    "linear_num_key_heads=2\nlinear_num_value_heads=4\nlinear_key_head_dim=8\nlinear_value_head_dim=5\nlinear_conv_kernel_dim=4\n"
    "tie_word_embeddings=true\n" HYBRID_SIZES;

/* To be added to the config: experts in place of the MLPs; llama.cpp's order of heads and form of norms and decay rates. */
static const char hybrid_experts[] =
    "num_experts=4\nnum_experts_per_tok=2\nmoe_intermediate_size=10\nshared_expert_intermediate_size=12\n";
static const char hybrid_gguf[] = "is_gguf=true\n";

static const char hybrid_mtp_config[] = "drafter_kind=mtp\nnum_hidden_layers=1\n" HYBRID_SIZES;

static void hybrid_attention(tiny_checkpoint* c, const char* layer) {
  int q = TINY_HEADS * TINY_HEAD_DIM, kv = TINY_KV_HEADS * TINY_HEAD_DIM;
  tiny_tensor(c, 2 * q, TINY_HIDDEN, 1, 0, "%s.self_attn.q_proj.weight", layer);
  tiny_tensor(c, kv, TINY_HIDDEN, 1, 0, "%s.self_attn.k_proj.weight", layer);
  tiny_tensor(c, kv, TINY_HIDDEN, 1, 0, "%s.self_attn.v_proj.weight", layer);
  tiny_tensor(c, TINY_HIDDEN, q, 1, 0, "%s.self_attn.o_proj.weight", layer);
  tiny_tensor(c, TINY_HEAD_DIM, 0, 0.2f, 0, "%s.self_attn.q_norm.weight", layer);
  tiny_tensor(c, TINY_HEAD_DIM, 0, 0.2f, 0, "%s.self_attn.k_norm.weight", layer);
}

static void hybrid_delta_net(tiny_checkpoint* c, const char* layer) {
  tiny_tensor(c, HYBRID_CHANNELS, TINY_HIDDEN, 1, 0, "%s.linear_attn.in_proj_qkv.weight", layer);
  tiny_tensor(c, HYBRID_VALUES, TINY_HIDDEN, 1, 0, "%s.linear_attn.in_proj_z.weight", layer);
  tiny_tensor(c, HYBRID_VALUE_HEADS, TINY_HIDDEN, 1, 0, "%s.linear_attn.in_proj_b.weight", layer);
  tiny_tensor(c, HYBRID_VALUE_HEADS, TINY_HIDDEN, 1, 0, "%s.linear_attn.in_proj_a.weight", layer);
  tiny_tensor(c, HYBRID_CHANNELS, HYBRID_TAPS, 1, 0, "%s.linear_attn.conv1d.weight", layer);
  tiny_tensor(c, HYBRID_VALUE_HEADS, 0, 1, -2, "%s.linear_attn.A_log", layer);
  tiny_tensor(c, HYBRID_VALUE_HEADS, 0, 1, 0, "%s.linear_attn.dt_bias", layer);
  tiny_tensor(c, HYBRID_VALUE_DIM, 0, 0.2f, 1, "%s.linear_attn.norm.weight", layer);
  tiny_tensor(c, TINY_HIDDEN, HYBRID_VALUES, 1, 0, "%s.linear_attn.out_proj.weight", layer);
}

static void hybrid_rest(tiny_checkpoint* c, const char* layer) {
  tiny_tensor(c, TINY_HIDDEN, 0, 0.2f, 0, "%s.input_layernorm.weight", layer);
  tiny_tensor(c, TINY_HIDDEN, 0, 0.2f, 0, "%s.post_attention_layernorm.weight", layer);
  tiny_tensor(c, TINY_INTERMEDIATE, TINY_HIDDEN, 1, 0, "%s.mlp.gate_proj.weight", layer);
  tiny_tensor(c, TINY_INTERMEDIATE, TINY_HIDDEN, 1, 0, "%s.mlp.up_proj.weight", layer);
  tiny_tensor(c, TINY_HIDDEN, TINY_INTERMEDIATE, 1, 0, "%s.mlp.down_proj.weight", layer);
}

static void hybrid_stack(tiny_checkpoint* c, const char* layer, const char* name, int rows, int columns) {
  char full[128], shape[48];
  for (int i = 0; i < HYBRID_EXPERTS * rows * columns; i++) fwrite(&(float){tiny_random(c)}, sizeof(float), 1, c->file);
  snprintf(full, sizeof full, "%s.mlp.switch_mlp.%s.weight", layer, name);
  snprintf(shape, sizeof shape, "%d,%d,%d", HYBRID_EXPERTS, rows, columns);
  tiny_line(c, full, "F32", shape, HYBRID_EXPERTS * rows * columns * 4);
}

static void hybrid_mixture(tiny_checkpoint* c, const char* layer) {
  tiny_tensor(c, HYBRID_EXPERTS, TINY_HIDDEN, 1, 0, "%s.mlp.gate.weight", layer);
  hybrid_stack(c, layer, "gate_up_proj", 2 * HYBRID_EXPERT_SIZE, TINY_HIDDEN);
  hybrid_stack(c, layer, "down_proj", TINY_HIDDEN, HYBRID_EXPERT_SIZE);
  tiny_tensor(c, HYBRID_SHARED_SIZE, TINY_HIDDEN, 1, 0, "%s.mlp.shared_expert.gate_proj.weight", layer);
  tiny_tensor(c, HYBRID_SHARED_SIZE, TINY_HIDDEN, 1, 0, "%s.mlp.shared_expert.up_proj.weight", layer);
  tiny_tensor(c, TINY_HIDDEN, HYBRID_SHARED_SIZE, 1, 0, "%s.mlp.shared_expert.down_proj.weight", layer);
  tiny_tensor(c, 1, TINY_HIDDEN, 1, 0, "%s.mlp.shared_expert_gate.weight", layer);
}

/* Norms are stored as their distance from 1. The kernel's table line has the two dimensions that matter of three. */
static void hybrid_checkpoint_write(tiny_checkpoint* c) {
  char layer[64];
  tiny_checkpoint_open(c, 11);
  tiny_tensor(c, TINY_VOCAB, TINY_HIDDEN, 4, 0, "model.language_model.embed_tokens.weight");
  tiny_tensor(c, TINY_HIDDEN, 0, 0.2f, 0, "model.language_model.norm.weight");
  for (int i = 0; i < HYBRID_LAYERS; i++) {
    snprintf(layer, sizeof layer, "model.language_model.layers.%d", i);
    if (i < 2) hybrid_delta_net(c, layer);
    else hybrid_attention(c, layer);
    hybrid_rest(c, layer);
    hybrid_mixture(c, layer);
  }
  hybrid_attention(c, "mtp.layers.0");
  hybrid_rest(c, "mtp.layers.0");
  tiny_tensor(c, TINY_HIDDEN, 2 * TINY_HIDDEN, 1, 0, "mtp.fc.weight");
  tiny_tensor(c, TINY_HIDDEN, 0, 0.2f, 0, "mtp.norm.weight");
  tiny_tensor(c, TINY_HIDDEN, 0, 0.2f, 0, "mtp.pre_fc_norm_embedding.weight");
  tiny_tensor(c, TINY_HIDDEN, 0, 0.2f, 0, "mtp.pre_fc_norm_hidden.weight");
  fclose(c->file);
}

#endif
