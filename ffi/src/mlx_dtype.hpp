/* mlx-c's dtypes as MLX's own, for the files that see its C++. */
#ifndef ROWLOCK_MLX_DTYPE_HPP
#define ROWLOCK_MLX_DTYPE_HPP

#include "mlx/c/mlx.h"
#include "mlx/dtype.h"

/* Of the types that arrays of our own have. */
inline mlx::core::Dtype dtype_of(mlx_dtype dtype) {
  switch (dtype) {
    case MLX_UINT8: return mlx::core::uint8;
    case MLX_UINT32: return mlx::core::uint32;
    case MLX_INT32: return mlx::core::int32;
    case MLX_FLOAT16: return mlx::core::float16;
    case MLX_BFLOAT16: return mlx::core::bfloat16;
    default: return mlx::core::float32;
  }
}

#endif
