/* SmolLM3 (Bakouch et al., 2025): Llama's block, in some layers without positions (Yang et al., arXiv 2501.18795). */
#include "../dense_decoder.h"

static void load_block(weights* w, const decoder* d, dense_block* b, int i) {
  int intermediate = config_int(w->config, "intermediate_size", 1, 1 << 22), q_size = d->num_heads * d->head_dim;
  bool attention_bias = config_bool(w->config, "attention_bias"), mlp_bias = config_bool(w->config, "mlp_bias");
  b->attention.window = load_window(w, i);
  b->lacks_positions = config_list_int(w, "no_rope_layers", i, 1) == 0; /* Hugging Face's key; its zeros are the layers without */
  b->attention.norm = load_layer_norm(w, i, "input_layernorm", d->hidden_size, 0);
  b->mlp.norm = load_layer_norm(w, i, "post_attention_layernorm", d->hidden_size, 0);
  b->attention.qkv = load_qkv(w, d, i, attention_bias);
  b->attention.output = load_projection(w, i, "self_attn.o_proj", d->hidden_size, q_size, attention_bias);
  b->mlp.gate_up = load_gate_up(w, d, i, intermediate, mlp_bias);
  b->mlp.down = load_projection(w, i, "mlp.down_proj", d->hidden_size, intermediate, mlp_bias);
}

static void* load(weights* w) { return dense_decoder_load(w, load_block); }

const architecture smollm3 = {
    .model_type = "smollm3",
    .load = load,
    .unload = dense_decoder_unload,
    .hidden = dense_decoder_hidden,
    .logits = dense_decoder_logits,
    .embed = dense_decoder_embed,
};
