/* Llama (Touvron et al., arXiv 2302.13971): pre-norm blocks of grouped-query attention with rotary positions and a SwiGLU MLP.
 * Covers Llama 2/3, Mistral, SmolLM2 and checkpoints of the same shape, with optional biases and sliding-window layers. */
#include "../dense_decoder.h"

static void load_block(weights* w, const decoder* d, dense_block* b, int i) {
  bool has_bias = config_bool(w->config, "attention_bias");
  dense_block_load(w, d, b, i, (dense_biases){.qkv = has_bias, .output = has_bias, .mlp = config_bool(w->config, "mlp_bias")});
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
