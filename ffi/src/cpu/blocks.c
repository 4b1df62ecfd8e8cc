#include "blocks.h"

#include <string.h>

size_t block_bytes(block_kind kind) {
  static const size_t bytes[] = {0, sizeof(block_4), sizeof(block_8), sizeof(block_8_halves)};
  return bytes[kind];
}

void block_write(block_kind kind, const value_group* g, void* block) {
  if (kind == BLOCKS_4) {
    block_4* b = block;
    b->scale = g->scales[0], b->bias = g->biases[0];
    for (int i = 0; i < 16; i++) b->nibbles[i] = (uint8_t)(g->values[i] | g->values[16 + i] << 4);
  } else if (kind == BLOCKS_8) {
    block_8* b = block;
    b->scale = g->scales[0], b->bias = g->biases[0];
    memcpy(b->values, g->values, sizeof b->values);
  } else {
    block_8_halves* b = block;
    memcpy(b->scales, g->scales, sizeof b->scales);
    memcpy(b->biases, g->biases, sizeof b->biases);
    memcpy(b->values, g->values, sizeof b->values);
  }
}

/* One rounding, as in the products. */
static float value_of(float scale, float bias, int integer) { return __builtin_fmaf(scale, (float)integer, bias); }

void blocks_to_floats(block_kind kind, const void* blocks, size_t num_blocks, float* values) {
  const uint8_t* bytes = blocks;
  for (; num_blocks > 0; num_blocks--, bytes += block_bytes(kind), values += BLOCK_VALUES) {
    const block_4* four = (const void*)bytes;
    const block_8* eight = (const void*)bytes;
    const block_8_halves* halves = (const void*)bytes;
    for (int i = 0; i < BLOCK_VALUES; i++) {
      if (kind == BLOCKS_4) values[i] = value_of(four->scale, four->bias, i < 16 ? four->nibbles[i] & 15 : four->nibbles[i - 16] >> 4);
      else if (kind == BLOCKS_8) values[i] = value_of(eight->scale, eight->bias, eight->values[i]);
      else values[i] = value_of(halves->scales[i / 16], halves->biases[i / 16], halves->values[i]);
    }
  }
}
