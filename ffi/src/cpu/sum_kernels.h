/* The inner loop of c = a · b, both as they lie, for one vector width. Included once per instruction set, with NAME(x), TARGET, LANES (floats
 * a vector) and SUM_ROWS (rows of a register block) defined.
 *
 * An output's terms are added in an order that depends on K alone, never on how many rows or columns share the call: a row's result is
 * the same bits in every batch. */

typedef float NAME(vector) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

TARGET static inline NAME(vector) NAME(load)(const float* p) { return *(const NAME(vector)*)p; }

/* c[m, columns] = sum over k of a[m, k] * b[k, columns] for a strip of 4 vectors of columns. */
TARGET static inline __attribute__((always_inline)) void NAME(sum_strip)(const plain_product* p, int first_row, const int rows, int column) {
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
TARGET static void NAME(sum_rest)(const plain_product* p, int column) {
  for (; column < p->n; column++)
    for (int m = 0; m < p->m; m++) {
      float sum = 0;
      for (int i = 0; i < p->k; i++) sum = __builtin_fmaf(p->a[(long)m * p->lda + i], p->b[(long)i * p->ldb + column], sum);
      p->c[(long)m * p->ldc + column] = sum;
    }
}

/* c = a · b. */
TARGET static void NAME(sum_product)(const plain_product* p) {
  int column = 0;
  for (; column + 4 * LANES <= p->n; column += 4 * LANES) {
    int m = 0;
    for (; m + SUM_ROWS <= p->m; m += SUM_ROWS) NAME(sum_strip)(p, m, SUM_ROWS, column);
    for (; m < p->m; m++) NAME(sum_strip)(p, m, 1, column);
  }
  NAME(sum_rest)(p, column);
}

#undef NAME
#undef TARGET
#undef LANES
#undef SUM_ROWS
