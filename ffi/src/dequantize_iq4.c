/* ggml's IQ4 types: 4-bit indices into a grid that is finer near zero. */
#include "dequantize.h"
#include "number_formats.h"

static const int8_t grid[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void from_nibbles(const uint8_t* nibbles, float scale, float* values) {
  for (int i = 0; i < 16; i++) {
    values[i] = scale * (float)grid[nibbles[i] & 15];
    values[i + 16] = scale * (float)grid[nibbles[i] >> 4];
  }
}

void dequantize_iq4_nl(const uint8_t* block, float* values, size_t num_blocks) {
  for (; num_blocks > 0; num_blocks--, block += 18, values += 32) from_nibbles(block + 2, read_half(block), values);
}

/* IQ4_XS: scale, 16 bits of high scale bits, 4 bytes of low scale nibbles, 128 bytes of values in 8 sub-blocks. */
void dequantize_iq4_xs(const uint8_t* block, float* values, size_t num_blocks) {
  for (; num_blocks > 0; num_blocks--, block += 136) {
    float all_scale = read_half(block);
    int high = read_u16(block + 2);
    for (int sub = 0; sub < 8; sub++, values += 32) {
      int scale = (block[4 + sub / 2] >> (sub % 2 * 4) & 15) | (high >> (2 * sub) & 3) << 4;
      from_nibbles(block + 8 + 16 * sub, all_scale * (float)(scale - 32), values);
    }
  }
}
