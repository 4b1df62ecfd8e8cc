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

/* Whether the system gives memory to what is written alone, and takes it back from a range. */
#ifdef __linux__
#define MEMORY_IS_SPARSE 1
#else
#define MEMORY_IS_SPARSE 0
#endif

/* Whether so much address space may be taken for sparse arrays: not where the process has a limit of it (RLIMIT_AS) that others need too, nor where
 * the system counts it as memory (vm.overcommit_memory = 2). */
int memory_has_address_space(uint64_t num_bytes);

/* Zeros; where MEMORY_IS_SPARSE, they begin at a page and take none of the system's memory until they are written, so that they may be far larger
 * than that. Not among the bytes that MLX counts. */
mlx_array array_sparse(const int* shape, int num_dims, mlx_dtype dtype);

/* Where an array lies that has been evaluated. */
uint8_t* array_data(mlx_array array);

/* Makes zeros of a range; where MEMORY_IS_SPARSE, its whole pages go back to the system. */
void memory_clear(uint8_t* data, size_t num_bytes);

#ifdef __cplusplus
}
#endif

#endif
