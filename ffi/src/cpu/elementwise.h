/* The operations of a block beside its products, as kernels for op_host: each is one pass where MLX's CPU backend takes several.
 * All are float32, and a row's result depends on that row alone. Inputs may be views whose last axis is contiguous. */
#ifndef ROWLOCK_ELEMENTWISE_H
#define ROWLOCK_ELEMENTWISE_H

#include "host_op.h"

/* x [.., size], weight [size] if any, or [heads, size] for x [.., heads, size]: x / sqrt(mean(x²) + eps) * weight (Zhang & Sennrich, arXiv
 * 1910.07467). */
typedef struct rms_norm_params {
  float eps;
  int has_weight;
} rms_norm_params;
void host_rms_norm(const void* params, const host_tensor* inputs, void* output);

/* The sum of two [.., size]; no parameters. The output may be either. */
void host_add(const void* params, const host_tensor* inputs, void* output);

/* gate ‖ up [tokens, 2 * width] to silu(gate) * up [tokens, width]; no parameters. */
void host_swiglu(const void* params, const host_tensor* inputs, void* output);

/* The same with gelu(gate) in its tanh approximation, which is gate * sigmoid(2 * sqrt(2 / pi) * (gate + 0.044715 * gate³)). */
void host_geglu(const void* params, const host_tensor* inputs, void* output);

/* x [tokens, heads, head dim], cosines and signed sines [tokens, 1, 2, dims / 2]: rotates the first `dims` features of each head. */
typedef struct rope_params {
  int dims;
} rope_params;
void host_rope(const void* params, const host_tensor* inputs, void* output);

#endif
