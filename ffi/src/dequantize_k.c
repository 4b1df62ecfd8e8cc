/* ggml's K types: super-blocks of 256 values in sub-blocks of 16 or 32, whose scales are themselves quantized. */
#include "dequantize.h"
#include "number_formats.h"

enum { NUM_VALUES = 256 };

/* Values of 2 bits: 32 bytes hold 128 values, first the lowest bit pairs of all bytes, then the next ones. */
static int two_bits(const uint8_t* packed, int index) { return packed[index / 128 * 32 + index % 32] >> (index % 128 / 32 * 2) & 3; }

/* Q2_K: 16 bytes of scale ‖ minimum nibbles, 64 bytes of values, the scales' scale, the minima's scale. */
void dequantize_q2_k(const uint8_t* block, float* values, size_t num_blocks) {
  for (; num_blocks > 0; num_blocks--, block += 84, values += NUM_VALUES) {
    float scale = read_half(block + 80), minimum = read_half(block + 82);
    for (int i = 0; i < NUM_VALUES; i++) {
      int nibbles = block[i / 16];
      values[i] = scale * (float)(nibbles & 15) * (float)two_bits(block + 16, i) - minimum * (float)(nibbles >> 4);
    }
  }
}

/* Sixteen 6-bit scales in 12 bytes: 8 bytes of low nibbles, then 4 bytes of high bit pairs. */
static int q3_scale(const uint8_t* packed, int index) {
  int low = packed[index % 8] >> (index / 8 * 4) & 15, high = packed[8 + index % 4] >> (index / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

/* Q3_K: 32 bytes of third bits (set: nothing is subtracted), 64 bytes of low bit pairs, scales, the scales' scale. */
void dequantize_q3_k(const uint8_t* block, float* values, size_t num_blocks) {
  for (; num_blocks > 0; num_blocks--, block += 110, values += NUM_VALUES) {
    float scale = read_half(block + 108);
    for (int i = 0; i < NUM_VALUES; i++) {
      int offset = (block[i % 32] >> (i / 32) & 1) != 0 ? 0 : 4;
      values[i] = scale * (float)q3_scale(block + 96, i / 16) * (float)(two_bits(block + 32, i) - offset);
    }
  }
}

void k_scale_min(const uint8_t* packed, int index, int* scale, int* minimum) {
  if (index < 4) {
    *scale = packed[index] & 63;
    *minimum = packed[index + 4] & 63;
  } else {
    *scale = (packed[index + 4] & 15) | (packed[index - 4] >> 6) << 4;
    *minimum = (packed[index + 4] >> 4) | (packed[index] >> 6) << 4;
  }
}

/* Q4_K: scale, minimum, 12 bytes of sub-block scales and minima, 128 bytes of nibbles: 32 bytes hold two sub-blocks, low nibbles first. */
void dequantize_q4_k(const uint8_t* block, float* values, size_t num_blocks) {
  for (; num_blocks > 0; num_blocks--, block += 144) {
    float all_scale = read_half(block), all_minimum = read_half(block + 2);
    for (int sub = 0; sub < 8; sub++, values += 32) {
      const uint8_t* nibbles = block + 16 + sub / 2 * 32;
      int scale, minimum;
      k_scale_min(block + 4, sub, &scale, &minimum);
      float d = all_scale * (float)scale, m = all_minimum * (float)minimum;
      for (int i = 0; i < 32; i++) values[i] = d * (float)(nibbles[i] >> (sub % 2 * 4) & 15) - m;
    }
  }
}

/* Q5_K: as Q4_K with 32 bytes of fifth bits before the nibbles, one bit of every byte for each sub-block. */
void dequantize_q5_k(const uint8_t* block, float* values, size_t num_blocks) {
  for (; num_blocks > 0; num_blocks--, block += 176) {
    float all_scale = read_half(block), all_minimum = read_half(block + 2);
    for (int sub = 0; sub < 8; sub++, values += 32) {
      const uint8_t* nibbles = block + 48 + sub / 2 * 32;
      int scale, minimum;
      k_scale_min(block + 4, sub, &scale, &minimum);
      float d = all_scale * (float)scale, m = all_minimum * (float)minimum;
      for (int i = 0; i < 32; i++) values[i] = d * (float)((nibbles[i] >> (sub % 2 * 4) & 15) | (block[16 + i] >> sub & 1) << 4) - m;
    }
  }
}

/* Q6_K: 128 bytes of low nibbles (64 bytes hold 128 values), 64 bytes of high bit pairs, 16 signed scales, the scales' scale. */
void dequantize_q6_k(const uint8_t* block, float* values, size_t num_blocks) {
  for (; num_blocks > 0; num_blocks--, block += 210, values += NUM_VALUES) {
    float scale = read_half(block + 208);
    for (int i = 0; i < NUM_VALUES; i++) {
      int low = block[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
      values[i] = scale * (float)(int8_t)block[192 + i / 16] * (float)((low | two_bits(block + 128, i) << 4) - 32);
    }
  }
}

/* Q8_K: a float32 scale, 256 signed bytes, 16 sums that are of use to ggml's own products only. */
void dequantize_q8_k(const uint8_t* block, float* values, size_t num_blocks) {
  for (; num_blocks > 0; num_blocks--, block += 292, values += NUM_VALUES) {
    float scale = bits_to_float(read_u32(block));
    for (int i = 0; i < NUM_VALUES; i++) values[i] = scale * (float)(int8_t)block[4 + i];
  }
}
