/* SmolLM3 (Bakouch et al., 2025): Llama's block, in some layers without positions (Yang et al., arXiv 2501.18795). */
#include "../dense_decoder.h"

static void load_block(weights* w, const decoder* d, dense_block* b, int i) {
  bool has_bias = config_bool(w->config, "attention_bias");
  b->lacks_positions = config_list_int(w, "no_rope_layers", i, 1) == 0; /* Hugging Face's key; its zeros are the layers without */
  dense_block_load(w, d, b, i, (dense_biases){.qkv = has_bias, .output = has_bias, .mlp = config_bool(w->config, "mlp_bias")});
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
