/* One matrix, or one stack of matrices, as it lies in the checkpoint's files: what its rows are as numbers, and as they are multiplied. */
#ifndef ROWLOCK_STORED_MATRIX_H
#define ROWLOCK_STORED_MATRIX_H

#include "weights.h"

/* Rows are converted through the stack, and a thread may have little of it. */
enum { STORED_MATRIX_MAX_COLUMNS = 1 << 16 };

typedef struct stored_matrix {
  const tensor* values;
  const tensor *scales, *biases; /* quantized by MLX; mxfp4 has no biases */
  int bits, group_size;          /* of MLX's quantization, 0 when it is none */
  int64_t num_rows;              /* of the whole stack */
  int columns;
} stored_matrix;

/* Finds `module`.weight and what belongs to it, and checks that it is [rows, columns], or [stack, rows, columns] when `stack` > 0. */
stored_matrix stored_matrix_find(weights* w, const char* module, int stack, int rows, int columns);

/* How the loaded matrix is to be held: as `w` says, as the types and sizes allow. */
matrix_format stored_matrix_format(const weights* w, const stored_matrix* m);

/* Row `row` in `format`, which is dense, into memory for `columns` values. */
void stored_matrix_dense(const stored_matrix* m, int64_t row, mlx_dtype dtype, void* values);

/* Row `row` in `format`, which is quantized, into memory for one row of each array. */
void stored_matrix_packed(const stored_matrix* m, int64_t row, const matrix_format* format, void* words, void* scales, void* biases);

/* Row `row` in `format`, which has blocks, into memory for one row of them. */
void stored_matrix_blocks(const stored_matrix* m, int64_t row, block_kind kind, uint8_t* blocks);

/* Numbers to a float type of MLX. */
void write_floats(const float* values, size_t count, mlx_dtype dtype, void* out);

#endif
