/* The matrices and vectors that model code takes from a checkpoint, as float32 in memory of their own. */
#ifndef ROWLOCK_WEIGHTS_H
#define ROWLOCK_WEIGHTS_H

#include "config.h"
#include "tensors.h"
#include "mlx/c/mlx.h"

enum { PROJECTION_MAX_PARTS = 3 };

typedef struct weights {
  config* config;
  const tensor_table* tensors;
  uint64_t num_bytes; /* taken so far, as held in memory */
  int32_t status;     /* RL_OK, or the first error, as in a scope */
} weights;

/* A matrix product's right side: y = x · weightᵀ + bias. Rows of several projections may lie under each other. */
typedef struct linear {
  mlx_array weight; /* [out, in] */
  mlx_array weight_t; /* its transposed view */
  mlx_array bias;   /* [out], ctx NULL when there is none */
} linear;

bool weights_has(const weights* w, const char* name);

/* A required vector [size], as float32. */
mlx_array weights_vector(weights* w, const char* name, int size);

/* A required matrix [rows, columns] as float32, quantized or not; `module` is the name without ".weight". */
mlx_array weights_matrix(weights* w, const char* module, int rows, int columns);

/* One part of a fused projection. */
typedef struct projection {
  char module[128];  /* name without ".weight" */
  int rows;          /* output features */
  int head_dim;      /* > 0: rows of each head are permuted for interleaved rope (GGUF) and are put back in order */
} projection;

/* The parts' rows under each other, with their biases when `has_bias`. */
linear weights_linear(weights* w, const projection* parts, int num_parts, int columns, bool has_bias);
/* A product with a matrix that something else holds too (tied embeddings); shares its buffer. */
linear linear_of(mlx_array weight);
void linear_free(linear* l);
void array_free(mlx_array* array); /* no-op when there is none */

void weights_fail(weights* w, const char* format, ...) __attribute__((format(printf, 2, 3)));

#endif
