/* MLX's float32 products on a CPU arrive here (the linker wraps cblas_sgemm): those of its own kernels, and of models that are computed by them.
 * Products with few rows, which is what decoding is made of, are memory-bound: OpenBLAS packs both sides first and reaches a fifth of the
 * memory's speed, these loops stream the weights once. Products with many rows go on to OpenBLAS. */
#include <cblas.h>
#include <stdatomic.h>

#include "features.h"
#include "product.h"
#include "sgemm.h"

/* c [m, n] = a [m, k] · b [k, n]. */
typedef struct plain_product {
  int m, n, k;
  const float *a, *b;
  float* c;
  int lda, ldb, ldc;
} plain_product;

#if defined(__x86_64__)
#define NAME(x) avx512_##x
#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma")))
#define LANES 16
#define SUM_ROWS 4
#include "sum_kernels.h"
#define NAME(x) base_##x
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define SUM_ROWS 3
#include "sum_kernels.h"
bool sgemm_can_stream(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#define DISPATCH(call) (cpu_has_avx512() ? avx512_##call : base_##call)
#else
#define NAME(x) base_##x
#define TARGET
#define LANES 4
#define SUM_ROWS 4
#include "sum_kernels.h"
bool sgemm_can_stream(void) { return true; }
#define DISPATCH(call) base_##call
#endif

/* Up to here streaming wins over packing whatever OpenBLAS finds to run on (measured on a Zen 5: against its AVX2 kernels at every size,
 * against its AVX-512 kernels up to about 48 rows). */
enum { MAX_SKINNY_ROWS = 48 };

static atomic_bool is_invariant;

void sgemm_batch_invariant(bool is_on) { atomic_store(&is_invariant, is_on); }

bool sgemm_is_batch_invariant(void) { return atomic_load(&is_invariant); }

void __real_cblas_sgemm(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, int m, int n, int k, float alpha, const float* a,
                        int lda, const float* b, int ldb, float beta, float* c, int ldc);

void __wrap_cblas_sgemm(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, int m, int n, int k, float alpha, const float* a,
                        int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  bool is_plain = layout == CblasRowMajor && trans_a == CblasNoTrans && alpha == 1 && beta == 0;
  bool is_skinny = is_plain && sgemm_can_stream() && (m <= MAX_SKINNY_ROWS || atomic_load_explicit(&is_invariant, memory_order_relaxed));
  if (is_skinny && trans_b == CblasTrans) {
    product_weights weights = {.type = WEIGHTS_F32, .data = b, .n = n, .k = k, .row_bytes = (size_t)ldb * sizeof *b};
    product(&weights, a, lda, m, NULL, c, ldc);
  } else if (is_skinny && trans_b == CblasNoTrans) {
    plain_product p = {m, n, k, a, b, c, lda, ldb, ldc};
    DISPATCH(sum_product(&p));
  } else {
    __real_cblas_sgemm(layout, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
}
