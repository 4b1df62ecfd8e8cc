#include "dequantize.h"

#include <string.h>

static float bits_to_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float half_to_float(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 0x1F, fraction = half & 0x3FF;
  if (exponent == 0x1F) return bits_to_float(sign | 0x7F800000 | fraction << 13);
  if (exponent != 0) return bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
  float magnitude = (float)fraction * 0x1p-24f; /* zero and subnormal */
  return sign != 0 ? -magnitude : magnitude;
}

static uint16_t read_u16(const uint8_t* bytes) { return (uint16_t)(bytes[0] | bytes[1] << 8); }
static float read_half(const uint8_t* bytes) { return half_to_float(read_u16(bytes)); }

static void from_f32(const uint8_t* data, float* values, size_t num_blocks) { memcpy(values, data, num_blocks * sizeof(float)); }

static void from_f16(const uint8_t* data, float* values, size_t num_blocks) {
  for (size_t i = 0; i < num_blocks; i++) values[i] = read_half(data + 2 * i);
}

static void from_bf16(const uint8_t* data, float* values, size_t num_blocks) {
  for (size_t i = 0; i < num_blocks; i++) values[i] = bits_to_float((uint32_t)read_u16(data + 2 * i) << 16);
}

/* In ggml's 32-value blocks the low nibbles are values 0 … 15 and the high nibbles are 16 … 31. */
static void from_q4_0(const uint8_t* block, float* values, size_t num_blocks) {
  for (; num_blocks > 0; num_blocks--, block += 18, values += 32) {
    float scale = read_half(block);
    for (int i = 0; i < 16; i++) {
      values[i] = scale * (float)((block[2 + i] & 15) - 8);
      values[i + 16] = scale * (float)((block[2 + i] >> 4) - 8);
    }
  }
}

static void from_q4_1(const uint8_t* block, float* values, size_t num_blocks) {
  for (; num_blocks > 0; num_blocks--, block += 20, values += 32) {
    float scale = read_half(block), minimum = read_half(block + 2);
    for (int i = 0; i < 16; i++) {
      values[i] = scale * (float)(block[4 + i] & 15) + minimum;
      values[i + 16] = scale * (float)(block[4 + i] >> 4) + minimum;
    }
  }
}

static void from_q8_0(const uint8_t* block, float* values, size_t num_blocks) {
  for (; num_blocks > 0; num_blocks--, block += 34, values += 32) {
    float scale = read_half(block);
    for (int i = 0; i < 32; i++) values[i] = scale * (float)(int8_t)block[2 + i];
  }
}

static const tensor_type types[] = {
    {"F32", 1, 4, from_f32},       {"F16", 1, 2, from_f16},       {"BF16", 1, 2, from_bf16}, {"U32", 1, 4, NULL},
    {"Q4_0", 32, 18, from_q4_0}, {"Q4_1", 32, 20, from_q4_1}, {"Q8_0", 32, 34, from_q8_0},
};

const tensor_type* tensor_type_named(const char* name) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(types[i].name, name) == 0) return &types[i];
  return NULL;
}

static uint32_t read_u32(const uint8_t* bytes) { return read_u16(bytes) | (uint32_t)read_u16(bytes + 2) << 16; }

void dequantize_affine(const uint8_t* words, const float* scales, const float* biases, int bits, int group_size, float* values,
                       size_t num_values) {
  uint32_t mask = (1u << bits) - 1;
  for (size_t i = 0; i < num_values; i++) {
    size_t bit = i * (size_t)bits, word = bit / 32, shift = bit % 32;
    uint32_t low = read_u32(words + 4 * word) >> shift;
    if (shift + (size_t)bits > 32) low |= read_u32(words + 4 * word + 4) << (32 - shift); /* 3, 5 and 6 bit values cross words */
    values[i] = scales[i / (size_t)group_size] * (float)(low & mask) + biases[i / (size_t)group_size];
  }
}
