#include "product.h"

#include <stdlib.h>
#include <string.h>

#include "../number_formats.h"
#include "features.h"
#include "workers.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Below so many multiplications a product is too small to share; so many parts for each thread, because none may wait for a slow one. With fewer
 * columns it is faster than a copy of x. */
enum { MIN_SHARED_WORK = 1 << 16, PARTS_PER_THREAD = 4, MIN_COLUMNS_OF_A_COPY = 64 };
/* A panel of 4 columns × PANEL_VALUES lies in the first-level cache, x's rows of a tile in the second-level one. */
enum { COLUMNS = 4, PANEL_VALUES = 1536, PANEL_STRIDE = PANEL_VALUES + 16, TILE_ROWS = 64 };

/* X(name, bytes of a unit) for every weight_type, in its order. */
#define FOR_EACH_WEIGHT_TYPE(X)                                                                       \
  X(f32, 128)                                                                                         \
  X(f16, 64)                                                                                          \
  X(bf16, 64)                                                                                         \
  X(blocks_4, sizeof(block_4)) X(blocks_8, sizeof(block_8)) X(blocks_8_halves, sizeof(block_8_halves))

typedef struct call {
  const product_weights* w;
  size_t row_bytes;
  const float *x, *bias;
  int64_t ldx, ldy;
  int m;
  float* y;
  const float* residual; /* NULL: none */
  int64_t ld_residual;
} call;

typedef float four_lanes __attribute__((vector_size(16), aligned(4), may_alias));
typedef float eight_lanes __attribute__((vector_size(32), aligned(4), may_alias));

size_t weight_row_bytes(weight_type type, int k) {
  if (type == WEIGHTS_F32) return 4 * (size_t)k;
  if (type == WEIGHTS_F16 || type == WEIGHTS_BF16) return 2 * (size_t)k;
  return (size_t)k / BLOCK_VALUES * block_bytes(weight_blocks(type));
}

/* `count` values from `first`, a multiple of 32; for blocks the count is one too. */
static void plain_values(const call* p, const uint8_t* row, int first, int count, float* values) {
  weight_type type = p->w->type;
  if (type == WEIGHTS_F32) memcpy(values, row + 4 * (size_t)first, 4 * (size_t)count);
  else if (type == WEIGHTS_F16)
    for (int i = 0; i < count; i++) values[i] = read_half(row + 2 * (size_t)(first + i));
  else if (type == WEIGHTS_BF16)
    for (int i = 0; i < count; i++) values[i] = bfloat_to_float(read_u16(row + 2 * (size_t)(first + i)));
  else {
    block_kind kind = weight_blocks(type);
    blocks_to_floats(kind, row + (size_t)first / BLOCK_VALUES * block_bytes(kind), (size_t)count / BLOCK_VALUES, values);
  }
}

void product_weights_row(const product_weights* w, int64_t row, float* values) {
  size_t row_bytes = weight_row_bytes(w->type, w->k);
  call p = {.w = w, .row_bytes = row_bytes};
  plain_values(&p, (const uint8_t*)w->data + (size_t)row * row_bytes, 0, w->k, values);
}

#if defined(__x86_64__)
#define NAME(x) avx512_##x
#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma,f16c")))
#define LANES 16
#define FUSED_ROWS 8
#define DOT_ROWS 4
#include "product_kernels.h"
#define NAME(x) avx2_##x
#define TARGET __attribute__((target("avx2,fma,f16c")))
#define LANES 8
#define FUSED_ROWS 2
#define DOT_ROWS 3
#include "product_kernels.h"
#else
#define NAME(x) base_##x
#define TARGET
#define LANES 4
#define FUSED_ROWS 4
#define DOT_ROWS 4
#include "product_kernels.h"
#endif

static void part(void* work, int index, int count) {
  const call* p = work;
  int num_blocks = (p->w->n + COLUMNS - 1) / COLUMNS;
  int first = (int)((int64_t)num_blocks * index / count) * COLUMNS, last = (int)((int64_t)num_blocks * (index + 1) / count) * COLUMNS;
  if (last > p->w->n) last = p->w->n;
#if defined(__x86_64__)
  if (cpu_has_avx512()) avx512_columns(p, first, last);
  else avx2_columns(p, first, last);
#else
  base_columns(p, first, last);
#endif
}

/* A vector that crosses a line of the cache takes two reads, which few rows more than double the time of: rows that do not begin at a line are copied
 * to some that do, unless there is no memory for that. The buffer stays with the thread. */
static const float* rows_at_lines(const float* x, int64_t* ldx, int m, int k) {
  enum { LINE_FLOATS = 16 };
  static _Thread_local struct { float* rows; size_t count; } buffer;
  if ((uintptr_t)x % (LINE_FLOATS * sizeof *x) == 0 && *ldx % LINE_FLOATS == 0) return x;
  size_t stride = ((size_t)k + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS, count = stride * (size_t)m;
  if (buffer.count < count) {
    free(buffer.rows);
    buffer.rows = aligned_alloc(LINE_FLOATS * sizeof *x, count * sizeof *x);
    buffer.count = buffer.rows != NULL ? count : 0;
    if (buffer.rows == NULL) return x;
  }
  for (int i = 0; i < m; i++) memcpy(buffer.rows + (size_t)i * stride, x + i * *ldx, (size_t)k * sizeof *x);
  *ldx = (int64_t)stride;
  return buffer.rows;
}

void product(const product_weights* w, const float* x, int64_t ldx, int m, const float* bias, float* y, int64_t ldy) {
  product_onto(w, x, ldx, m, bias, NULL, 0, y, ldy);
}

void product_onto(const product_weights* w, const float* x, int64_t ldx, int m, const float* bias, const float* residual, int64_t ld_residual,
                  float* y, int64_t ldy) {
  if (w->n >= MIN_COLUMNS_OF_A_COPY) x = rows_at_lines(x, &ldx, m, w->k);
  call p = {w, w->row_bytes > 0 ? w->row_bytes : weight_row_bytes(w->type, w->k), x, bias, ldx, ldy, m, y, residual, ld_residual};
  if ((int64_t)m * w->n * w->k < MIN_SHARED_WORK) part(&p, 0, 1);
  else workers_run(part, &p, PARTS_PER_THREAD * workers_count());
}
