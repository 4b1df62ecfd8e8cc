/* Kernels of our own as operations of MLX's graph, on its CPU backend. */
#ifndef ROWLOCK_HOST_OP_H
#define ROWLOCK_HOST_OP_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "../scope.h"

enum { HOST_MAX_DIMS = 5, HOST_MAX_INPUTS = 10 };

/* An evaluated input: element (i, j, …) lies at data + i * strides[0] + j * strides[1] + …, counted in elements. */
typedef struct host_tensor {
  void* data;
  int num_dims;
  int shape[HOST_MAX_DIMS];
  int64_t strides[HOST_MAX_DIMS];
} host_tensor;

/* Computes `output` (row-contiguous) from the inputs; `params` is a copy of what the operation was made with. Called on MLX's CPU thread. */
typedef void (*host_kernel)(const void* params, const host_tensor* inputs, void* output);

/* A kernel whose output has the shape of inputs[0], and may be its memory. */
typedef struct host_block_op {
  host_kernel kernel;
  const void* params; /* not copied */
  mlx_array inputs[HOST_MAX_INPUTS]; /* with ctx NULL: a tensor with data NULL */
  int num_inputs;
  bool starts_anew; /* inputs[0] is wanted for itself, not by this operation alone */
} host_block_op;

#ifdef ROWLOCK_HOST_OPS
/* Reads the off switch: with ROWLOCK_CPU_KERNELS=mlx in the environment, models loaded from now on are computed by MLX's kernels. */
void host_ops_configure(void);

/* Whether the scope's operations run on MLX's CPU backend, and may so have kernels of our own. */
bool host_ops_available(const scope* s);

/* A new array that `kernel` fills. */
mlx_array op_host(scope* s, host_kernel kernel, const void* params, size_t params_bytes, const mlx_array* inputs, int num_inputs,
                  const int* shape, int num_dims, mlx_dtype dtype);

/* inputs[0], row-contiguous, as `kernel` changes it: in its own buffer, whoever else shares that. What was read of it before must have been
 * made on the same stream. */
mlx_array op_host_in_place(scope* s, host_kernel kernel, const void* params, size_t params_bytes, const mlx_array* inputs, int num_inputs);

/* Joins the operation that has made inputs[0], where that is such a one: a chain of blocks is one operation, and inputs[0] becomes its result
 * (unless it `starts_anew`). The other inputs are no part of MLX's graph: they are evaluated now if they are not, and may be changed by the
 * kernel where they lie. Neither they nor `params` may be freed before the stream has been waited for. */
mlx_array op_host_block(scope* s, const host_block_op* op);

/* What a kernel sees of the array, evaluated now if it is not; data NULL when ctx is NULL. */
host_tensor host_tensor_of(scope* s, mlx_array array);
#else
/* MLX's own kernels serve everything: it is built for a GPU, or its C++ headers are not at hand. */
static inline void host_ops_configure(void) {}
static inline bool host_ops_available(const scope* s) { return (void)s, false; }
static inline mlx_array op_host(scope* s, host_kernel kernel, const void* params, size_t params_bytes, const mlx_array* inputs, int num_inputs,
                                const int* shape, int num_dims, mlx_dtype dtype) {
  (void)kernel, (void)params, (void)params_bytes, (void)inputs, (void)num_inputs, (void)shape, (void)num_dims, (void)dtype;
  return scope_fail(s, RL_ERR_MLX, "This build has no kernels of its own"), mlx_array_empty;
}
static inline mlx_array op_host_in_place(scope* s, host_kernel kernel, const void* params, size_t params_bytes, const mlx_array* inputs,
                                         int num_inputs) {
  return op_host(s, kernel, params, params_bytes, inputs, num_inputs, NULL, 0, MLX_FLOAT32);
}
static inline mlx_array op_host_block(scope* s, const host_block_op* op) {
  return op_host(s, op->kernel, NULL, 0, NULL, 0, NULL, 0, MLX_FLOAT32);
}
static inline host_tensor host_tensor_of(scope* s, mlx_array array) { return (void)s, (void)array, (host_tensor){0}; }
#endif

#ifdef __cplusplus
}
#endif

#endif
