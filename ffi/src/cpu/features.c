#include "features.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static bool look(void) {
#if defined(__x86_64__)
  const char* isa = getenv("ROWLOCK_CPU_ISA");
  if (isa != NULL && strcmp(isa, "avx2") == 0) return false;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw");
#else
  return false;
#endif
}

bool cpu_has_avx512(void) {
  static atomic_int answer = -1;
  int known = atomic_load_explicit(&answer, memory_order_relaxed);
  if (known < 0) atomic_store_explicit(&answer, known = look(), memory_order_relaxed);
  return known == 1;
}

const char* cpu_kernels(void) {
  const char* kernels = getenv("ROWLOCK_CPU_KERNELS");
  if (kernels != NULL && strcmp(kernels, "mlx") == 0) return "mlx";
#if defined(__x86_64__)
  return cpu_has_avx512() ? "avx512" : "avx2";
#else
  return "portable";
#endif
}
