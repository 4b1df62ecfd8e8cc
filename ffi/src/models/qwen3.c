/* Qwen3 (Yang et al., arXiv 2505.09388): Llama's block with RMS norms on the queries and keys of each head. */
#include "../dense_decoder.h"

static void load_block(weights* w, const decoder* d, dense_block* b, int i) {
  int intermediate = config_int(w->config, "intermediate_size", 1, 1 << 22), q_size = d->num_heads * d->head_dim;
  bool attention_bias = config_bool(w->config, "attention_bias");
  b->attention.window = load_window(w, i);
  b->attention.norm = load_layer_norm(w, i, "input_layernorm", d->hidden_size, 0);
  b->mlp.norm = load_layer_norm(w, i, "post_attention_layernorm", d->hidden_size, 0);
  b->attention.qk_norm = load_qk_norm(w, d, i, 0);
  b->attention.qkv = load_qkv(w, d, i, attention_bias);
  b->attention.output = load_projection(w, i, "self_attn.o_proj", d->hidden_size, q_size, attention_bias);
  b->mlp.gate_up = load_gate_up(w, d, i, intermediate, false);
  b->mlp.down = load_projection(w, i, "mlp.down_proj", d->hidden_size, intermediate, false);
}

static void* load(weights* w) { return dense_decoder_load(w, load_block); }

const architecture qwen3 = {
    .model_type = "qwen3",
    .load = load,
    .unload = dense_decoder_unload,
    .hidden = dense_decoder_hidden,
    .logits = dense_decoder_logits,
    .embed = dense_decoder_embed,
};
