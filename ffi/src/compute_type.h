/* What the config's `dtype` means for a checkpoint on a device. */
#ifndef ROWLOCK_COMPUTE_TYPE_H
#define ROWLOCK_COMPUTE_TYPE_H

#include "config.h"
#include "tensors.h"
#include "mlx/c/mlx.h"

typedef struct compute_type {
  mlx_dtype dtype;   /* of activations, KV, norms and biases */
  bool keeps_stored; /* matrices keep their half types and quantizations; else they become `dtype` */
} compute_type;

/* float32, float16, bfloat16: everything in that type. stored, auto, or nothing: matrices as they are in the checkpoint, and where the CPU's
 * products are MLX's (`uses_host_ops` is false and there is no GPU), float32 for auto. */
int32_t choose_compute_type(const config* c, const tensor_table* tensors, bool is_gpu, bool uses_host_ops, compute_type* out);

#endif
