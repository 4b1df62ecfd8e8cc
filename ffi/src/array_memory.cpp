#include "array_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

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

size_t bytes_of(const mx::Shape& sizes, mx::Dtype type) {
  size_t num_bytes = type.size();
  for (int size : sizes) num_bytes *= static_cast<size_t>(size);
  return num_bytes;
}

#ifdef __linux__
/* The first number in a file of the kernel's; 0 when there is none. */
uint64_t number_in(const char* path) {
  unsigned long long number = 0;
  if (FILE* file = std::fopen(path, "r")) {
    if (std::fscanf(file, "%llu", &number) != 1) number = 0;
    std::fclose(file);
  }
  return number;
}

/* Address space for an array; the system gives memory to what is written. MLX's buffers begin with their size, for which there is a page of its
 * own in front, so that the array lies at a page. */
mlx_array make_sparse(const mx::Shape& sizes, mx::Dtype type) {
  size_t num_bytes = bytes_of(sizes, type), mapped_bytes = num_bytes + page_bytes();
  void* mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return mlx_array{nullptr};
  madvise(mapped, mapped_bytes, MADV_NOHUGEPAGE);
  auto* start = static_cast<char*>(mapped);
  size_t header_bytes = static_cast<size_t>(static_cast<char*>(mx::allocator::Buffer{start}.raw_ptr()) - start);
  auto* size = reinterpret_cast<size_t*>(start + page_bytes() - header_bytes);
  *size = num_bytes;
  return mlx_array{new mx::array(mx::allocator::Buffer{size}, sizes, type,
                                 [mapped, mapped_bytes](mx::allocator::Buffer) { munmap(mapped, mapped_bytes); })};
}
#endif

}  // namespace

mlx_array array_uninitialized(const int* shape, int num_dims, mlx_dtype dtype, uint8_t** data) try {
  mx::Shape sizes(shape, shape + num_dims);
  size_t num_bytes = bytes_of(sizes, dtype_of(dtype));
  mx::allocator::Buffer buffer = mx::allocator::malloc(num_bytes);
  if (buffer.ptr() == nullptr) return mlx_array{nullptr};
  mlx_array array = {new mx::array(buffer, sizes, dtype_of(dtype))};
  *data = array_data(array);
#ifdef MADV_HUGEPAGE
  /* A step streams all weights, and page walks cost a tenth of it: large arrays ask for huge pages, before they are touched. */
  advise(*data, num_bytes, 1 << 21, MADV_HUGEPAGE);
#endif
  return array;
} catch (...) {
  return mlx_array{nullptr};
}

mlx_array array_sparse(const int* shape, int num_dims, mlx_dtype dtype) try {
#ifdef __linux__
  return make_sparse(mx::Shape(shape, shape + num_dims), dtype_of(dtype));
#else
  uint8_t* data;
  mlx_array array = array_uninitialized(shape, num_dims, dtype, &data);
  if (array.ctx != nullptr) memory_clear(data, bytes_of(mx::Shape(shape, shape + num_dims), dtype_of(dtype)));
  return array;
#endif
} catch (...) {
  return mlx_array{nullptr};
}

int memory_has_address_space(uint64_t num_bytes) {
#ifdef __linux__
  struct rlimit limit;
  if (number_in("/proc/sys/vm/overcommit_memory") == 2) return 0;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 1;
  uint64_t used = number_in("/proc/self/statm") * page_bytes();
  return used < limit.rlim_cur && num_bytes < (limit.rlim_cur - used) / 2;
#else
  return num_bytes == 0;
#endif
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
