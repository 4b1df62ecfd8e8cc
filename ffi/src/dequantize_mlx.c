/* MLX's quantizations, and ggml's block form of the same 4-bit floats. */
#include "dequantize.h"
#include "number_formats.h"

uint8_t affine_integer(const uint8_t* words, int bits, size_t index) {
  size_t bit = index * (size_t)bits, word = bit / 32, shift = bit % 32;
  uint32_t low = read_u32(words + 4 * word) >> shift;
  if (shift + (size_t)bits > 32) low |= read_u32(words + 4 * word + 4) << (32 - shift); /* 3, 5 and 6 bit values cross words */
  return (uint8_t)(low & ((1u << bits) - 1));
}

void dequantize_affine(const uint8_t* words, const float* scales, const float* biases, int bits, int group_size, float* values,
                       size_t num_values) {
  for (size_t i = 0; i < num_values; i++)
    values[i] = scales[i / (size_t)group_size] * (float)affine_integer(words, bits, i) + biases[i / (size_t)group_size];
}

void dequantize_mxfp4(const uint8_t* words, const uint8_t* scales, float* values, size_t num_values) {
  for (size_t i = 0; i < num_values; i++) values[i] = e8m0_to_float(scales[i / 32]) * fp4_to_float(words[i / 2] >> (i % 2 * 4));
}

void dequantize_mxfp4_blocks(const uint8_t* block, float* values, size_t num_blocks) {
  for (; num_blocks > 0; num_blocks--, block += 17, values += 32) {
    float scale = e8m0_to_float(block[0]);
    for (int i = 0; i < 16; i++) {
      values[i] = scale * fp4_to_float(block[1 + i]);
      values[i + 16] = scale * fp4_to_float(block[1 + i] >> 4);
    }
  }
}
