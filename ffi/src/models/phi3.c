/* Phi-3 and Phi-4 (Abdin et al., arXiv 2404.14219): Llama's block, stored with fused projections. */
#include "../dense_decoder.h"

static void load_block(weights* w, const decoder* d, dense_block* b, int i) {
  int intermediate = config_int(w->config, "intermediate_size", 1, 1 << 22), q_size = d->num_heads * d->head_dim;
  b->attention.window = load_window(w, i);
  b->attention.norm = load_layer_norm(w, i, "input_layernorm", d->hidden_size, 0);
  b->mlp.norm = load_layer_norm(w, i, "post_attention_layernorm", d->hidden_size, 0);
  b->attention.qkv = load_projection(w, i, "self_attn.qkv_proj", q_size + 2 * d->num_kv_heads * d->head_dim, d->hidden_size, false);
  b->attention.output = load_projection(w, i, "self_attn.o_proj", d->hidden_size, q_size, false);
  b->mlp.gate_up = load_projection(w, i, "mlp.gate_up_proj", 2 * intermediate, d->hidden_size, false);
  b->mlp.down = load_projection(w, i, "mlp.down_proj", d->hidden_size, intermediate, false);
}

static void* load(weights* w) { return dense_decoder_load(w, load_block); }

const architecture phi3 = {
    .model_type = "phi3",
    .load = load,
    .unload = dense_decoder_unload,
    .hidden = dense_decoder_hidden,
    .logits = dense_decoder_logits,
    .embed = dense_decoder_embed,
};
