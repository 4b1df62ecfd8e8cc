/* The two inner loops of a product with few rows, for one vector width. Included once per instruction set, with
 * NAME(x), TARGET, LANES (floats a vector), DOT_COLUMNS and SUM_ROWS (register blocking) defined.
 *
 * An output's terms are added in an order that depends on K alone, never on how many rows or columns share the call: a row's result is
 * the same bits in every batch. */

typedef float NAME(vector) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

TARGET static inline NAME(vector) NAME(load)(const float* p) { return *(const NAME(vector)*)p; }

TARGET static inline NAME(vector) NAME(load_tail)(const float* p, int count) {
  NAME(vector) v = {0};
  for (int i = 0; i < count; i++) v[i] = p[i];
  return v;
}

/* The lanes' sum, folded in halves. */
TARGET static inline four_lanes NAME(fold)(NAME(vector) v) {
#if LANES == 16
  eight_lanes half = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  return __builtin_shufflevector(half, half, 0, 1, 2, 3) + __builtin_shufflevector(half, half, 4, 5, 6, 7);
#elif LANES == 8
  return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
  return v;
#endif
}

TARGET static inline float NAME(sum)(NAME(vector) v) {
  four_lanes q = NAME(fold)(v);
  return (q[0] + q[2]) + (q[1] + q[3]);
}

/* Four sums at once, each in the order of NAME(sum). */
TARGET static inline four_lanes NAME(sum4)(const NAME(vector)* v) {
  four_lanes a = NAME(fold)(v[0]), b = NAME(fold)(v[1]), c = NAME(fold)(v[2]), d = NAME(fold)(v[3]);
  four_lanes ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  four_lanes cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

/* c[m, n] = a[m, :] · b[n, :] for `rows` (1 … 4) rows and `columns` (1 … DOT_COLUMNS) columns; both sides contiguous along K. */
#define DOT_BLOCK(ROWS, COLUMNS)                                                                                       \
  TARGET static void NAME(dot_##ROWS##x##COLUMNS)(int k, const float* a, int lda, const float* b, int ldb, float* c, int ldc) { \
    NAME(vector) sums[ROWS][COLUMNS] = {{{0}}};                                                                        \
    int i = 0;                                                                                                         \
    for (; i + LANES <= k; i += LANES) {                                                                               \
      NAME(vector) left[ROWS];                                                                                         \
      for (int m = 0; m < ROWS; m++) left[m] = NAME(load)(a + (long)m * lda + i);                                      \
      for (int n = 0; n < COLUMNS; n++) {                                                                              \
        NAME(vector) right = NAME(load)(b + (long)n * ldb + i);                                                        \
        __builtin_prefetch(b + (long)(n + PREFETCHED_ROWS) * ldb + i);                                                        \
        for (int m = 0; m < ROWS; m++) sums[m][n] += left[m] * right;                                                  \
      }                                                                                                                \
    }                                                                                                                  \
    if (i < k) {                                                                                                       \
      for (int n = 0; n < COLUMNS; n++) {                                                                              \
        NAME(vector) right = NAME(load_tail)(b + (long)n * ldb + i, k - i);                                            \
        for (int m = 0; m < ROWS; m++) sums[m][n] += NAME(load_tail)(a + (long)m * lda + i, k - i) * right;            \
      }                                                                                                                \
    }                                                                                                                  \
    for (int m = 0; m < ROWS; m++) {                                                                                   \
      if (COLUMNS == 4) *(four_lanes*)(c + (long)m * ldc) = NAME(sum4)(sums[m]);                                       \
      else for (int n = 0; n < COLUMNS; n++) c[(long)m * ldc + n] = NAME(sum)(sums[m][n]);                             \
    }                                                                                                                  \
  }

DOT_BLOCK(1, 1)
DOT_BLOCK(2, 1)
DOT_BLOCK(3, 1)
DOT_BLOCK(4, 1)
DOT_BLOCK(1, 4)
DOT_BLOCK(2, 4)
#if DOT_COLUMNS == 4
DOT_BLOCK(3, 4)
DOT_BLOCK(4, 4)
#else
DOT_BLOCK(3, 2)
DOT_BLOCK(4, 2)
#endif

typedef void (*NAME(dot_block))(int k, const float* a, int lda, const float* b, int ldb, float* c, int ldc);

/* Columns [first, last) of c = a · bᵀ. */
TARGET static void NAME(dot_columns)(const product* p, int first, int last) {
  static const NAME(dot_block) single[] = {NAME(dot_1x1), NAME(dot_2x1), NAME(dot_3x1), NAME(dot_4x1)};
#if DOT_COLUMNS == 4
  static const NAME(dot_block) block[] = {NAME(dot_1x4), NAME(dot_2x4), NAME(dot_3x4), NAME(dot_4x4)};
  static const int widths[] = {4, 4, 4, 4};
#else
  static const NAME(dot_block) block[] = {NAME(dot_1x4), NAME(dot_2x4), NAME(dot_3x2), NAME(dot_4x2)};
  static const int widths[] = {4, 4, 2, 2};
#endif
  int chunk = rows_that_stay_cached(p->k);
  for (int top = 0; top < p->m; top += chunk) {
    int bottom = top + chunk < p->m ? top + chunk : p->m;
    for (int n = first; n < last; n += 4) {
      for (int m = top; m < bottom; m += 4) {
        int rows = bottom - m < 4 ? bottom - m : 4, width = widths[rows - 1], end = n + 4 < last ? n + 4 : last, column = n;
        const float* a = p->a + (long)m * p->lda;
        float* c = p->c + (long)m * p->ldc;
        for (; column + width <= end; column += width) block[rows - 1](p->k, a, p->lda, p->b + (long)column * p->ldb, p->ldb, c + column, p->ldc);
        for (; column < end; column++) single[rows - 1](p->k, a, p->lda, p->b + (long)column * p->ldb, p->ldb, c + column, p->ldc);
      }
    }
  }
}

/* c[m, columns] = sum over k of a[m, k] * b[k, columns] for a strip of 4 vectors of columns. */
TARGET static inline __attribute__((always_inline)) void NAME(sum_strip)(const product* p, int first_row, const int rows, int column) {
  NAME(vector) sums[SUM_ROWS][4] = {{{0}}};
  const float* a = p->a + (long)first_row * p->lda;
  const float* b = p->b + column;
  for (int i = 0; i < p->k; i++, b += p->ldb) {
    NAME(vector) right[4];
    for (int v = 0; v < 4; v++) right[v] = NAME(load)(b + v * LANES);
    for (int m = 0; m < rows; m++)
      for (int v = 0; v < 4; v++) sums[m][v] += a[(long)m * p->lda + i] * right[v];
  }
  for (int m = 0; m < rows; m++)
    for (int v = 0; v < 4; v++) *(NAME(vector)*)(p->c + (long)(first_row + m) * p->ldc + column + v * LANES) = sums[m][v];
}

/* The columns that fill no strip, one at a time and in the same order. Fused by name: left to itself, the compiler fuses multiply and add in the
 * last few terms only, and a sum would depend on how many zeros (masked positions) follow its last term. */
TARGET static void NAME(sum_rest)(const product* p, int column) {
  for (; column < p->n; column++)
    for (int m = 0; m < p->m; m++) {
      float sum = 0;
      for (int i = 0; i < p->k; i++) sum = __builtin_fmaf(p->a[(long)m * p->lda + i], p->b[(long)i * p->ldb + column], sum);
      p->c[(long)m * p->ldc + column] = sum;
    }
}

/* c = a · b. */
TARGET static void NAME(sum_product)(const product* p) {
  int column = 0;
  for (; column + 4 * LANES <= p->n; column += 4 * LANES) {
    int m = 0;
    for (; m + SUM_ROWS <= p->m; m += SUM_ROWS) NAME(sum_strip)(p, m, SUM_ROWS, column);
    for (; m < p->m; m++) NAME(sum_strip)(p, m, 1, column);
  }
  NAME(sum_rest)(p, column);
}

#undef DOT_BLOCK
#undef NAME
#undef TARGET
#undef LANES
#undef DOT_COLUMNS
#undef SUM_ROWS
