/* Llama (Touvron et al., arXiv 2302.13971): pre-norm blocks of grouped-query attention with rotary positions and a SwiGLU MLP.
 * Covers Llama 2/3, Mistral, SmolLM2 and checkpoints of the same shape, with optional biases and sliding-window layers. */
#include "../dense_decoder.h"

static void load_block(weights* w, const decoder* d, dense_block* b, int i) {
  int intermediate = config_int(w->config, "intermediate_size", 1, 1 << 22), q_size = d->num_heads * d->head_dim;
  bool attention_bias = config_bool(w->config, "attention_bias"), mlp_bias = config_bool(w->config, "mlp_bias");
  b->attention.window = load_window(w, i);
  b->attention.norm = load_layer_norm(w, i, "input_layernorm", d->hidden_size, 0);
  b->mlp.norm = load_layer_norm(w, i, "post_attention_layernorm", d->hidden_size, 0);
  b->attention.qkv = load_qkv(w, d, i, attention_bias);
  b->attention.output = load_projection(w, i, "self_attn.o_proj", d->hidden_size, q_size, attention_bias);
  b->mlp.gate_up = load_gate_up(w, d, i, intermediate, mlp_bias);
  b->mlp.down = load_projection(w, i, "mlp.down_proj", d->hidden_size, intermediate, mlp_bias);
}

static void* load(weights* w) { return dense_decoder_load(w, load_block); }

const architecture llama = {
    .model_type = "llama",
    .load = load,
    .unload = dense_decoder_unload,
    .hidden = dense_decoder_hidden,
    .logits = dense_decoder_logits,
    .embed = dense_decoder_embed,
};
