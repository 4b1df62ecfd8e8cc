/* What the processor at hand can do beyond the library's own instruction set. */
#ifndef ROWLOCK_CPU_FEATURES_H
#define ROWLOCK_CPU_FEATURES_H

#include <stdbool.h>

/* Vectors of 16 floats. Off with ROWLOCK_CPU_ISA=avx2 in the environment. */
bool cpu_has_avx512(void);

/* The kernels that models are computed by: avx512, avx2, portable, or mlx when ROWLOCK_CPU_KERNELS says so. */
const char* cpu_kernels(void);

#endif
