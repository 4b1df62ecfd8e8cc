/* The matrices and vectors that model code takes from a checkpoint, in memory of their own. */
#ifndef ROWLOCK_WEIGHTS_H
#define ROWLOCK_WEIGHTS_H

#include "config.h"
#include "cpu/blocks.h"
#include "tensors.h"
#include "mlx/c/mlx.h"

enum { PROJECTION_MAX_PARTS = 3 };

typedef struct weights {
  config* config;
  const tensor_table* tensors;
  mlx_dtype dtype;     /* of activations, norms and biases, and of matrices unless they are kept as stored */
  bool uses_host_ops;  /* the CPU's products are our own, see cpu/product.h */
  int dense_bits;      /* > 0: on a CPU, matrices of a float type become blocks of so many bits, 4 or 8 */
  bool keeps_stored;   /* matrices stay in the checkpoint's half types and quantizations, see matrix_format */
  uint64_t num_bytes;  /* taken so far, as held in memory */
  int32_t status;      /* RL_OK, or the first error, as in a scope */
} weights;

/* How a matrix is held in memory. */
typedef struct matrix_format {
  int bits;            /* 0: dense */
  int group_size;      /* neighbours in a row that share a scale */
  bool is_mxfp4;       /* 4-bit floats with E8M0 scales instead of integers with scales and biases */
  mlx_dtype dtype;     /* of dense values, or of scales and biases */
  block_kind blocks;   /* on a CPU: how quantized rows are held instead of the above */
} matrix_format;

typedef struct matrix {
  matrix_format format;
  mlx_array values;         /* [out, in]; quantized: packed words [out, in * bits / 32], or bytes of blocks; experts: one axis more in front */
  int columns;              /* in */
  mlx_array transposed;     /* dense: a view of `values`, [in, out] */
  mlx_array scales, biases; /* quantized: [out, in / group_size]; ctx NULL where there are none */
} matrix;

/* A product's right side: y = x · weightᵀ + bias. Rows of several projections lie under each other, in one matrix as far as their formats
 * agree. */
typedef struct linear {
  matrix parts[PROJECTION_MAX_PARTS];
  int num_parts;
  mlx_array bias; /* [out], ctx NULL when there is none */
} linear;

/* Rows by token id; may be the output head too. */
typedef struct embedding {
  matrix table;
  mlx_dtype dtype; /* of the rows that it gives */
} embedding;

bool weights_has(const weights* w, const char* name);

/* A required vector [size] with `offset` added: some checkpoints store norms as their distance from 1. */
mlx_array weights_norm(weights* w, const char* name, int size, float offset);

/* One part of a fused projection. */
typedef struct projection {
  char module[128];  /* name without ".weight" */
  int rows;          /* output features */
  int head_dim;      /* > 0: rows of each head are permuted for interleaved rope (GGUF) and are put back in order */
} projection;

/* The part "module.name" with rows in order. */
projection projection_of(const char* module, const char* name, int rows);

/* The parts' rows under each other, with their biases when `has_bias`. */
linear weights_linear(weights* w, const projection* parts, int num_parts, int columns, bool has_bias);

/* The same for every expert of `module` (model.layers.0.mlp), stacked: matrices [experts, out, in]. The parts' modules are last names
 * (up_proj). Found as one stacked tensor (switch_mlp.up_proj) or as one of each expert (experts.3.up_proj). */
linear weights_experts(weights* w, const char* module, const projection* parts, int num_parts, int num_experts, int columns);

embedding weights_embedding(weights* w, const char* module, int rows, int columns);

/* A product with a matrix that something else holds too (tied embeddings); shares its buffers. */
linear linear_of_embedding(const embedding* e);

/* [..., out, in] as [..., in, out], without copying. */
mlx_array transposed_view(mlx_array values);

void linear_free(linear* l);
void embedding_free(embedding* e);
void array_free(mlx_array* array); /* no-op when there is none */

void weights_fail(weights* w, const char* format, ...) __attribute__((format(printf, 2, 3)));

#endif
