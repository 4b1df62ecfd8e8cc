/* What the tests of the CPU's kernels share: repeatable random numbers, and arrays as kernels see them. */
#ifndef ROWLOCK_KERNEL_INPUTS_H
#define ROWLOCK_KERNEL_INPUTS_H

#include "cpu/host_op.h"

static uint32_t seed = 1;
static uint32_t next_random(void) { return seed = seed * 1664525 + 1013904223, seed >> 8; }
static float uniform(void) { return (float)next_random() / (float)(1 << 24) * 2 - 1; }

static void fill(float* values, size_t count) {
  for (size_t i = 0; i < count; i++) values[i] = uniform();
}

static host_tensor tensor_of(void* data, int num_dims, const int* shape) {
  host_tensor t = {.data = data, .num_dims = num_dims};
  int64_t stride = 1;
  for (int i = num_dims - 1; i >= 0; stride *= shape[i--]) t.shape[i] = shape[i], t.strides[i] = stride;
  return t;
}

#endif
