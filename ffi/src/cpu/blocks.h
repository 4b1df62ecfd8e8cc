/* Quantized matrices as the CPU's products read them: a row is a sequence of blocks of 32 values, each value = scale * integer + bias.
 * Everything that checkpoints quantize to becomes one of three blocks without a change of any value. */
#ifndef ROWLOCK_BLOCKS_H
#define ROWLOCK_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

enum { BLOCK_VALUES = 32 };

typedef enum block_kind { BLOCKS_NONE, BLOCKS_4, BLOCKS_8, BLOCKS_8_HALVES } block_kind;

/* Integers of up to 4 bits; byte i holds value i in its low nibble, value 16 + i in its high one. */
typedef struct block_4 {
  float scale, bias;
  uint8_t nibbles[16];
} block_4;

/* Integers of up to 8 bits. */
typedef struct block_8 {
  float scale, bias;
  uint8_t values[BLOCK_VALUES];
} block_8;

/* The same with a scale and a bias for each 16 values. */
typedef struct block_8_halves {
  float scales[2], biases[2];
  uint8_t values[BLOCK_VALUES];
} block_8_halves;

/* 32 integers before they are packed; both halves have the same scale and bias unless the kind is BLOCKS_8_HALVES. */
typedef struct value_group {
  uint8_t values[BLOCK_VALUES];
  float scales[2], biases[2];
} value_group;

size_t block_bytes(block_kind kind);

void block_write(block_kind kind, const value_group* g, void* block);

/* The closest 32 integers of 0 … 2^bits - 1 to the values, by what they make of them: least squares. */
void block_quantize(const float* values, int bits, value_group* g);

/* `num_blocks` blocks to float32. */
void blocks_to_floats(block_kind kind, const void* blocks, size_t num_blocks, float* values);

#endif
