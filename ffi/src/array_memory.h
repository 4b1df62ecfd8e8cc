/* Arrays whose memory is filled in place: mlx-c makes arrays of given data only, and copies that on a CPU. */
#ifndef ROWLOCK_ARRAY_MEMORY_H
#define ROWLOCK_ARRAY_MEMORY_H

#include <stdint.h>

#include "mlx/c/mlx.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A row-contiguous array of MLX's memory, not initialized, and where it lies; ctx NULL when it cannot be had. The memory may be written until
 * the array is first used. */
mlx_array array_uninitialized(const int* shape, int num_dims, mlx_dtype dtype, uint8_t** data);

#ifdef __cplusplus
}
#endif

#endif
