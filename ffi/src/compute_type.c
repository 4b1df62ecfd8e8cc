#include "compute_type.h"

#include <string.h>

static bool ends_with(const char* text, const char* end) {
  size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Index of a float type: 0 float32, 1 float16, 2 bfloat16, -1 another type. */
static int float_index(const tensor_type* type) {
  static const char* const names[] = {"F32", "F16", "BF16"};
  for (int i = 0; i < 3; i++)
    if (strcmp(type->name, names[i]) == 0) return i;
  return -1;
}

/* The type that the checkpoint was made for: that of MLX's scales, float16 for ggml's blocks, else the one with most bytes. */
static mlx_dtype type_of_checkpoint(const tensor_table* tensors) {
  static const mlx_dtype dtypes[] = {MLX_FLOAT32, MLX_FLOAT16, MLX_BFLOAT16};
  uint64_t bytes[3] = {0};
  bool has_blocks = false;
  for (size_t i = 0; i < tensors->num_tensors; i++) {
    const tensor* t = &tensors->tensors[i];
    int index = float_index(t->type);
    if (index >= 0 && ends_with(t->name, ".scales")) return dtypes[index];
    if (index >= 0) bytes[index] += t->num_bytes;
    has_blocks = has_blocks || t->type->block_size > 1;
  }
  if (has_blocks) return MLX_FLOAT16;
  int most = 0;
  for (int i = 1; i < 3; i++)
    if (bytes[i] > bytes[most]) most = i;
  return dtypes[most];
}

int32_t choose_compute_type(const config* c, const tensor_table* tensors, bool is_gpu, bool uses_host_ops, compute_type* out) {
  const char* dtype = config_text(c, "dtype");
  bool is_auto = *dtype == '\0' || strcmp(dtype, "auto") == 0;
  if (strcmp(dtype, "float32") == 0 || (is_auto && !is_gpu && !uses_host_ops)) *out = (compute_type){MLX_FLOAT32, false};
  else if (strcmp(dtype, "float16") == 0) *out = (compute_type){MLX_FLOAT16, false};
  else if (strcmp(dtype, "bfloat16") == 0) *out = (compute_type){MLX_BFLOAT16, false};
  /* MLX's half-precision kernels are slow on a CPU, its quantized ones most of all: activations are float32 there. */
  else if (strcmp(dtype, "stored") == 0 || is_auto) *out = (compute_type){is_gpu ? type_of_checkpoint(tensors) : MLX_FLOAT32, true};
  else return rl_fail(RL_ERR_MODEL, "The dtype is %s, expected auto, float32, float16, bfloat16 or stored", dtype);
  return RL_OK;
}
