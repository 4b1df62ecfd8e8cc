#include <stdio.h>

#include "cgroup_memory.h"
#include "cpu/features.h"
#include "cpu/sgemm.h"
#include "scope.h"

#ifndef ROWLOCK_MLXC_VERSION
#define ROWLOCK_MLXC_VERSION "unknown"
#endif
#ifndef ROWLOCK_ISA
#define ROWLOCK_ISA ""
#endif
#ifndef ROWLOCK_BLAS
#define ROWLOCK_BLAS "system"
#endif

#ifdef ROWLOCK_HOST_OPS
#define KERNELS cpu_kernels()
#else
#define KERNELS "mlx"
#endif

/* MLX does not tell the limit that it was given; UINT64_MAX: never set. */
static uint64_t cache_limit = UINT64_MAX;

int32_t rl_abi_version(void) { return RL_ABI_VERSION; }

int32_t rl_build_info(char* text, int32_t capacity) {
  install_mlx_error_handler();
  mlx_string version = mlx_string_new();
  mlx_version(&version);
  bool has_metal = false;
  mlx_metal_is_available(&has_metal);
  char lines[512];
  int length = snprintf(lines, sizeof lines, "abi=%d\nmlx=%s\nmlxc=%s\ndevice=%s\nisa=%s\nblas=%s\nkernels=%s\ncompiler=%s\n", RL_ABI_VERSION,
                        mlx_string_data(version), ROWLOCK_MLXC_VERSION, has_metal ? "metal" : "cpu", ROWLOCK_ISA, ROWLOCK_BLAS, has_metal ? "metal" : KERNELS, __VERSION__);
  mlx_string_free(version);
  if (text != NULL && capacity > 0) snprintf(text, (size_t)capacity, "%s", lines);
  return length;
}

int32_t rl_memory(uint64_t* out) {
  if (out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_memory: out must not be NULL");
  size_t active = 0, peak = 0, cached = 0;
  mlx_get_active_memory(&active);
  mlx_get_peak_memory(&peak);
  mlx_get_cache_memory(&cached);
  out[0] = active, out[1] = peak > active ? peak : active, out[2] = cached, out[3] = cache_limit;
  return RL_OK;
}

int32_t rl_memory_limit(uint64_t cache_bytes) {
  size_t previous;
  install_mlx_error_handler();
  if (mlx_set_cache_limit(&previous, (size_t)cache_bytes) != 0) return RL_ERR_MLX;
  cache_limit = cache_bytes;
  return RL_OK;
}

int32_t rl_cgroup_memory(uint64_t* out) {
  if (out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_cgroup_memory: out must not be NULL");
  *out = cgroup_memory_left("/proc/self/cgroup", "/sys/fs/cgroup");
  return RL_OK;
}

int32_t rl_batch_invariant(int32_t is_on) {
#ifdef ROWLOCK_OWN_SGEMM
  bool has_metal = false;
  mlx_metal_is_available(&has_metal);
  if (!has_metal && sgemm_can_stream()) return sgemm_batch_invariant(is_on != 0), RL_OK;
#endif
  return is_on == 0 ? RL_OK : rl_fail(RL_ERR_ARGUMENT, "Batch-invariant products are there for the CPU device on Linux only, on x86 with AVX2");
}
