/* ggml blocks to MLX's affine layout and to the blocks of the CPU's products, which can be multiplied without dequantizing. */
#ifndef ROWLOCK_REPACK_H
#define ROWLOCK_REPACK_H

#include <stddef.h>
#include <stdint.h>

#include "cpu/blocks.h"
#include "dequantize.h"

enum { REPACK_GROUP_SIZE = 32 };

/* Bits of the affine integers that hold exactly the values of a ggml type; 0 when there are none. */
int repack_bits(const tensor_type* type);

/* One row: `num_values` values to words, and a scale and a bias for each group of 32. Types with repack_bits > 0 only.
 * Value = scale * integer + bias, where scale and bias need up to 17 bits of precision. */
void repack_row(const tensor_type* type, const uint8_t* blocks, uint32_t* words, float* scales, float* biases, size_t num_values);

/* The blocks that hold exactly the values of a ggml type, BLOCKS_NONE when there are none. */
block_kind repack_kind(const tensor_type* type);

/* One row: `num_values` values to blocks. Types with a repack_kind only. */
void repack_row_blocks(const tensor_type* type, const uint8_t* stored, uint8_t* blocks, size_t num_values);

#endif
