/* Arrays whose memory is filled in place: mlx-c makes arrays of given data only, and copies that on a CPU. */
#ifndef ROWLOCK_ARRAY_MEMORY_H
#define ROWLOCK_ARRAY_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "mlx/c/mlx.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A row-contiguous array of MLX's memory, not initialized, and where it lies; ctx NULL when it cannot be had. The memory may be written until
 * the array is first used. */
mlx_array array_uninitialized(const int* shape, int num_dims, mlx_dtype dtype, uint8_t** data);

/* Zeros that take none of the system's memory until they are written; for arrays that are never filled. */
mlx_array array_sparse(const int* shape, int num_dims, mlx_dtype dtype);

/* Where an array lies that has been evaluated. */
uint8_t* array_data(mlx_array array);

/* Gives the whole pages of memory in a range back to the system; their content is lost. Does nothing where that is not to be had. */
void memory_release(uint8_t* data, size_t num_bytes);

#ifdef __cplusplus
}
#endif

#endif
