/* Stored tensor types to float32. */
#ifndef ROWLOCK_DEQUANTIZE_H
#define ROWLOCK_DEQUANTIZE_H

#include <stddef.h>
#include <stdint.h>

typedef struct tensor_type {
  const char* name;
  int block_size;     /* values a block */
  int block_bytes;    /* bytes a block */
  void (*to_float)(const uint8_t* blocks, float* values, size_t num_blocks);
} tensor_type;

/* NULL when the type is unknown. U32 (packed integers of MLX's quantization) has no to_float. */
const tensor_type* tensor_type_named(const char* name);

/* MLX's affine quantization: `bits`-wide integers packed little-endian into `words`, in groups that share a scale and a bias. */
void dequantize_affine(const uint8_t* words, const float* scales, const float* biases, int bits, int group_size, float* values,
                       size_t num_values);

float half_to_float(uint16_t half);

#endif
