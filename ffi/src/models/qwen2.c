/* Qwen2 and Qwen2.5 (Yang et al., arXiv 2407.10671): Llama's block with biases on queries, keys and values. */
#include "../dense_decoder.h"

static void load_block(weights* w, const decoder* d, dense_block* b, int i) {
  dense_block_load(w, d, b, i, (dense_biases){.qkv = true});
}

static void* load(weights* w) { return dense_decoder_load(w, load_block); }

const architecture qwen2 = {
    .model_type = "qwen2",
    .load = load,
    .unload = dense_decoder_unload,
    .hidden = dense_decoder_hidden,
    .logits = dense_decoder_logits,
    .embed = dense_decoder_embed,
};
