#include "array_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "mlx/allocator.h"
#include "mlx/array.h"
#include "mlx_dtype.hpp"

namespace {

namespace mx = mlx::core;

uintptr_t page_bytes() {
  static const auto bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/* Calls madvise for the whole pages of `page` bytes in a range. */
[[maybe_unused]] void advise(uint8_t* data, size_t num_bytes, uintptr_t page, int advice) {
  uintptr_t start = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page, end = (reinterpret_cast<uintptr_t>(data) + num_bytes) / page * page;
  if (start < end) madvise(reinterpret_cast<void*>(start), end - start, advice);
}

/* An array that begins at a multiple of `alignment` bytes, which 1 leaves to MLX. */
mlx_array make_array(const int* shape, int num_dims, mlx_dtype dtype, size_t alignment, size_t* num_bytes) try {
  mx::Shape sizes(shape, shape + num_dims);
  mx::Dtype type = dtype_of(dtype);
  *num_bytes = type.size();
  for (int size : sizes) *num_bytes *= static_cast<size_t>(size);
  mx::allocator::Buffer buffer = mx::allocator::malloc(*num_bytes + alignment - 1);
  if (buffer.ptr() == nullptr) return mlx_array{nullptr};
  if (alignment == 1) return mlx_array{new mx::array(buffer, sizes, type)};
  size_t offset = (alignment - reinterpret_cast<uintptr_t>(buffer.raw_ptr()) % alignment) % alignment;
  mx::array owner(buffer, {1}, mx::uint8);
  auto aligned = std::make_unique<mx::array>(sizes, type, nullptr, std::vector<mx::array>{});
  mx::Strides strides = aligned->strides();
  size_t num_items = *num_bytes / type.size();
  aligned->copy_shared_buffer(owner, strides, {.contiguous = true, .row_contiguous = true, .col_contiguous = false}, num_items,
                              static_cast<int64_t>(offset / type.size()));
  aligned->set_status(mx::array::Status::available);
  return mlx_array{aligned.release()};
} catch (...) {
  return mlx_array{nullptr};
}

}  // namespace

mlx_array array_uninitialized(const int* shape, int num_dims, mlx_dtype dtype, uint8_t** data) {
  size_t num_bytes;
  mlx_array array = make_array(shape, num_dims, dtype, 1, &num_bytes);
  if (array.ctx == nullptr) return array;
  *data = array_data(array);
#ifdef MADV_HUGEPAGE
  /* A step streams all weights, and page walks cost a tenth of it: large arrays ask for huge pages, before they are touched. */
  advise(*data, num_bytes, 1 << 21, MADV_HUGEPAGE);
#endif
  return array;
}

mlx_array array_sparse(const int* shape, int num_dims, mlx_dtype dtype) {
  size_t num_bytes;
  /* At a page, so that the heads of a slot share none with others as far as their sizes allow. */
  mlx_array array = make_array(shape, num_dims, dtype, page_bytes(), &num_bytes);
  if (array.ctx == nullptr) return array;
  uint8_t* data = array_data(array);
#ifdef __linux__
  advise(data, num_bytes, page_bytes(), MADV_NOHUGEPAGE);
#endif
  /* What malloc hands out may have been in use. */
  memory_clear(data, num_bytes);
  return array;
}

uint8_t* array_data(mlx_array array) { return static_cast<mx::array*>(array.ctx)->data<uint8_t>(); }

void memory_clear(uint8_t* data, size_t num_bytes) {
#ifdef __linux__
  /* Pages that are given back are zeros when they are touched again; the ends are written. */
  uintptr_t address = reinterpret_cast<uintptr_t>(data), page = page_bytes();
  size_t before = std::min<size_t>(num_bytes, (page - address % page) % page), after = (num_bytes - before) % page;
  advise(data, num_bytes, page, MADV_DONTNEED);
  std::memset(data, 0, before);
  std::memset(data + num_bytes - after, 0, after);
#else
  std::memset(data, 0, num_bytes);
#endif
}
