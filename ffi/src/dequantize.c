#include "dequantize.h"

#include <string.h>

#include "number_formats.h"

static void from_f32(const uint8_t* data, float* values, size_t num_blocks) { memcpy(values, data, num_blocks * sizeof(float)); }

static void from_f16(const uint8_t* data, float* values, size_t num_blocks) {
  for (size_t i = 0; i < num_blocks; i++) values[i] = read_half(data + 2 * i);
}

static void from_bf16(const uint8_t* data, float* values, size_t num_blocks) {
  for (size_t i = 0; i < num_blocks; i++) values[i] = bfloat_to_float(read_u16(data + 2 * i));
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

/* The fifth bits of a block's values are the bits of one little-endian word. */
static void from_q5_0(const uint8_t* block, float* values, size_t num_blocks) {
  for (; num_blocks > 0; num_blocks--, block += 22, values += 32) {
    float scale = read_half(block);
    uint32_t high = read_u32(block + 2);
    for (int i = 0; i < 16; i++) {
      values[i] = scale * (float)((int)((block[6 + i] & 15) | (high >> i & 1) << 4) - 16);
      values[i + 16] = scale * (float)((int)((block[6 + i] >> 4) | (high >> (i + 16) & 1) << 4) - 16);
    }
  }
}

static void from_q5_1(const uint8_t* block, float* values, size_t num_blocks) {
  for (; num_blocks > 0; num_blocks--, block += 24, values += 32) {
    float scale = read_half(block), minimum = read_half(block + 2);
    uint32_t high = read_u32(block + 4);
    for (int i = 0; i < 16; i++) {
      values[i] = scale * (float)((block[8 + i] & 15) | (high >> i & 1) << 4) + minimum;
      values[i + 16] = scale * (float)((block[8 + i] >> 4) | (high >> (i + 16) & 1) << 4) + minimum;
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
    {"F32", 1, 4, from_f32},
    {"F16", 1, 2, from_f16},
    {"BF16", 1, 2, from_bf16},
    {"U32", 1, 4, NULL},
    {"I32", 1, 4, NULL},
    {"I64", 1, 8, NULL},
    {"U8", 1, 1, NULL},
    {"Q4_0", 32, 18, from_q4_0},
    {"Q4_1", 32, 20, from_q4_1},
    {"Q5_0", 32, 22, from_q5_0},
    {"Q5_1", 32, 24, from_q5_1},
    {"Q8_0", 32, 34, from_q8_0},
    {"Q2_K", 256, 84, dequantize_q2_k},
    {"Q3_K", 256, 110, dequantize_q3_k},
    {"Q4_K", 256, 144, dequantize_q4_k},
    {"Q5_K", 256, 176, dequantize_q5_k},
    {"Q6_K", 256, 210, dequantize_q6_k},
    {"Q8_K", 256, 292, dequantize_q8_k},
    {"IQ4_NL", 32, 18, dequantize_iq4_nl},
    {"IQ4_XS", 256, 136, dequantize_iq4_xs},
    {"MXFP4", 32, 17, dequantize_mxfp4_blocks},
};

const tensor_type* tensor_type_named(const char* name) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(types[i].name, name) == 0) return &types[i];
  return NULL;
}
