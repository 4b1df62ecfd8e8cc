#include "blocks.h"

#include <math.h>
#include <stdbool.h>
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

static void round_values(const float* values, float scale, float bias, int most, uint8_t* integers) {
  for (int i = 0; i < BLOCK_VALUES; i++) {
    float integer = roundf((values[i] - bias) / scale);
    integers[i] = (uint8_t)(integer > 0 ? fminf(integer, (float)most) : 0);
  }
}

/* The line through (integer, value); false when all integers are the same one. */
static bool fit_line(const float* values, const uint8_t* integers, float* scale, float* bias) {
  double n = BLOCK_VALUES, x = 0, y = 0, xx = 0, xy = 0;
  for (int i = 0; i < BLOCK_VALUES; i++) {
    x += integers[i], y += (double)values[i];
    xx += integers[i] * integers[i], xy += integers[i] * (double)values[i];
  }
  double spread = n * xx - x * x;
  if (spread <= 0) return false;
  *scale = (float)((n * xy - x * y) / spread);
  *bias = (float)((y - (double)*scale * x) / n);
  return *scale > 0;
}

/* From the whole range on, rounding and fitting take turns: each of them can only come closer. */
void block_quantize(const float* values, int bits, value_group* g) {
  enum { NUM_FITS = 4 };
  float low = values[0], high = values[0];
  for (int i = 1; i < BLOCK_VALUES; i++) low = fminf(low, values[i]), high = fmaxf(high, values[i]);
  int most = (1 << bits) - 1;
  float scale = (high - low) / (float)most, bias = low;
  memset(g->values, 0, sizeof g->values);
  for (int i = 0; i < NUM_FITS && scale > 0; i++) {
    round_values(values, scale, bias, most, g->values);
    if (!fit_line(values, g->values, &scale, &bias)) break;
  }
  g->scales[0] = g->scales[1] = scale, g->biases[0] = g->biases[1] = bias;
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
