#include "array_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "mlx/allocator.h"
#include "mlx/array.h"

namespace {

namespace mx = mlx::core;

mx::Dtype dtype_of(mlx_dtype dtype) {
  switch (dtype) {
    case MLX_UINT8: return mx::uint8;
    case MLX_UINT32: return mx::uint32;
    case MLX_FLOAT16: return mx::float16;
    case MLX_BFLOAT16: return mx::bfloat16;
    default: return mx::float32;
  }
}

/* A step streams all weights, and page walks cost a tenth of it: large arrays ask for huge pages, before they are touched. */
void ask_for_huge_pages([[maybe_unused]] uint8_t* data, [[maybe_unused]] size_t num_bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t huge = 1 << 21;
  uintptr_t start = (reinterpret_cast<uintptr_t>(data) + huge - 1) / huge * huge, end = (reinterpret_cast<uintptr_t>(data) + num_bytes) / huge * huge;
  if (start < end) madvise(reinterpret_cast<void*>(start), end - start, MADV_HUGEPAGE);
#endif
}

}  // namespace

mlx_array array_uninitialized(const int* shape, int num_dims, mlx_dtype dtype, uint8_t** data) try {
  mx::Shape sizes(shape, shape + num_dims);
  size_t num_bytes = dtype_of(dtype).size();
  for (int size : sizes) num_bytes *= static_cast<size_t>(size);
  mx::allocator::Buffer buffer = mx::allocator::malloc(num_bytes);
  if (buffer.ptr() == nullptr) return mlx_array{nullptr};
  auto* array = new mx::array(buffer, sizes, dtype_of(dtype));
  *data = array->data<uint8_t>();
  ask_for_huge_pages(*data, num_bytes);
  return mlx_array{array};
} catch (...) {
  return mlx_array{nullptr};
}
