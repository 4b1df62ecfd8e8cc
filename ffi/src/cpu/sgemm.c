/* MLX's float32 products on a CPU arrive here (the linker wraps cblas_sgemm). Products with few rows, which is what decoding is made of,
 * are memory-bound: OpenBLAS packs both sides first and reaches a fifth of the memory's speed, these loops stream the weights once.
 * Products with many rows (prefill) go on to OpenBLAS. */
#include <cblas.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "features.h"
#include "sgemm.h"
#include "workers.h"

typedef struct product {
  int m, n, k;
  const float *a, *b;
  float* c;
  int lda, ldb, ldc;
} product;

/* The weights of the next column blocks are fetched while the current one is multiplied: at 8 rows that halves the time. */
enum { PREFETCHED_ROWS = 8 };

typedef float four_lanes __attribute__((vector_size(16), aligned(4), may_alias));
typedef float eight_lanes __attribute__((vector_size(32), aligned(4), may_alias));

/* Rows of the left side that a core's second-level cache holds while all columns pass by: 256 KB of them, a multiple of 4. */
static inline int rows_that_stay_cached(int k) {
  int rows = (1 << 16) / k / 4 * 4;
  return rows > 48 ? rows : 48;
}

#if defined(__x86_64__)
#define NAME(x) avx512_##x
#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma")))
#define LANES 16
#define DOT_COLUMNS 4
#define SUM_ROWS 4
#include "skinny_kernels.h"
#define NAME(x) base_##x
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define DOT_COLUMNS 2
#define SUM_ROWS 3
#include "skinny_kernels.h"
bool sgemm_can_stream(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#define DISPATCH(call) (cpu_has_avx512() ? avx512_##call : base_##call)
#else
#define NAME(x) base_##x
#define TARGET
#define LANES 4
#define DOT_COLUMNS 4
#define SUM_ROWS 4
#include "skinny_kernels.h"
bool sgemm_can_stream(void) { return true; }
#define DISPATCH(call) base_##call
#endif

/* Up to here streaming wins over packing whatever OpenBLAS finds to run on (measured on a Zen 5: against its AVX2 kernels at every size,
 * against its AVX-512 kernels up to about 48 rows). Below the second number of multiplications a product is too small to share. */
enum { MAX_SKINNY_ROWS = 48, MIN_SHARED_WORK = 1 << 18, PARTS_PER_THREAD = 4 };

static atomic_bool is_invariant;

void sgemm_batch_invariant(bool is_on) { atomic_store(&is_invariant, is_on); }

bool sgemm_is_batch_invariant(void) { return atomic_load(&is_invariant); }

void __real_cblas_sgemm(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, int m, int n, int k, float alpha, const float* a,
                        int lda, const float* b, int ldb, float beta, float* c, int ldc);

static void dot_part(void* work, int index, int count) {
  const product* p = work;
  /* Borders at multiples of 4 keep the blocks whole. */
  int num_blocks = (p->n + 3) / 4, first = (int)((long)num_blocks * index / count) * 4, last = (int)((long)num_blocks * (index + 1) / count) * 4;
  DISPATCH(dot_columns(p, first, last < p->n ? last : p->n));
}

static void dot_product(product* p) {
  if ((long)p->m * p->n * p->k < MIN_SHARED_WORK) dot_part(p, 0, 1);
  else workers_run(dot_part, p, PARTS_PER_THREAD * workers_count());
}

void __wrap_cblas_sgemm(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, int m, int n, int k, float alpha, const float* a,
                        int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  bool is_plain = layout == CblasRowMajor && trans_a == CblasNoTrans && alpha == 1 && beta == 0;
  bool is_skinny = is_plain && sgemm_can_stream() && (m <= MAX_SKINNY_ROWS || atomic_load_explicit(&is_invariant, memory_order_relaxed));
  product p = {m, n, k, a, b, c, lda, ldb, ldc};
  if (is_skinny && trans_b == CblasTrans) dot_product(&p);
  else if (is_skinny && trans_b == CblasNoTrans) DISPATCH(sum_product(&p));
  else __real_cblas_sgemm(layout, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
