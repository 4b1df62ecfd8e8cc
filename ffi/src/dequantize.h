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

/* NULL when the type is unknown. U32 and U8 (packed integers and scales of MLX's quantization) have no to_float. */
const tensor_type* tensor_type_named(const char* name);

/* ggml's super-blocks of 256 values. */
void dequantize_q2_k(const uint8_t* block, float* values, size_t num_blocks);
void dequantize_q3_k(const uint8_t* block, float* values, size_t num_blocks);
void dequantize_q4_k(const uint8_t* block, float* values, size_t num_blocks);
void dequantize_q5_k(const uint8_t* block, float* values, size_t num_blocks);
void dequantize_q6_k(const uint8_t* block, float* values, size_t num_blocks);
void dequantize_q8_k(const uint8_t* block, float* values, size_t num_blocks);

/* ggml's blocks of 4-bit indices into a table of values. */
void dequantize_iq4_nl(const uint8_t* block, float* values, size_t num_blocks);
void dequantize_iq4_xs(const uint8_t* block, float* values, size_t num_blocks);
void dequantize_mxfp4_blocks(const uint8_t* block, float* values, size_t num_blocks);

/* The 6-bit scale and minimum of sub-block `index` (0 … 7) in the 12 bytes that Q4_K and Q5_K keep them in. */
void k_scale_min(const uint8_t* packed, int index, int* scale, int* minimum);

/* MLX's affine quantization: `bits`-wide integers packed little-endian into `words`, in groups that share a scale and a bias. */
void dequantize_affine(const uint8_t* words, const float* scales, const float* biases, int bits, int group_size, float* values,
                       size_t num_values);

/* Integer `index` of such words. */
uint8_t affine_integer(const uint8_t* words, int bits, size_t index);

/* MLX's mxfp4: 4-bit floats packed like 4-bit integers, in groups of 32 that share an E8M0 scale. */
void dequantize_mxfp4(const uint8_t* words, const uint8_t* scales, float* values, size_t num_values);

#endif
