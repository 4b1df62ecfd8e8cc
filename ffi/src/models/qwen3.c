/* Qwen3 (Yang et al., arXiv 2505.09388): Llama's block with RMS norms on the queries and keys of each head. */
#include "../dense_decoder.h"

static void load_block(weights* w, const decoder* d, dense_block* b, int i) {
  bool has_bias = config_bool(w->config, "attention_bias");
  b->attention.qk_norm = load_qk_norm(w, d, i, 0);
  dense_block_load(w, d, b, i, (dense_biases){.qkv = has_bias, .output = has_bias});
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
