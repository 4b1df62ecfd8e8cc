/* The inner loops of a product for one vector width. Included once per instruction set, with NAME(x), TARGET, LANES (floats a
 * vector), FUSED_ROWS and DOT_ROWS (register blocking) defined. A unit is 32 neighbouring weights of one row; vector v of it holds weights v * LANES …. */
#define UNIT_VECTORS (BLOCK_VALUES / LANES)

typedef float NAME(vector) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint16_t NAME(shorts) __attribute__((vector_size(2 * LANES), aligned(2), may_alias));
typedef uint32_t NAME(words) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

TARGET static inline NAME(vector) NAME(load)(const float* p) { return *(const NAME(vector)*)p; }

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

/* Four sums at once. */
TARGET static inline four_lanes NAME(sum4)(const NAME(vector)* v) {
  four_lanes a = NAME(fold)(v[0]), b = NAME(fold)(v[1]), c = NAME(fold)(v[2]), d = NAME(fold)(v[3]);
  four_lanes ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  four_lanes cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

#include "product_units.h"

/* The unit that K ends in, filled up with zeros. */
TARGET static void NAME(last_unit)(const call* p, const uint8_t* row, int first, float* values) {
  memset(values, 0, BLOCK_VALUES * sizeof *values);
  plain_values(p, row, first, p->w->k - first, values);
}

/* ---- ends: fold the sums, add the bias, write ---- */

TARGET static inline void NAME(write)(const call* p, four_lanes result, int row, int column, int columns) {
  float* y = p->y + row * p->ldy + column;
  const float *bias = p->bias != NULL ? p->bias + column : NULL, *residual = p->residual != NULL ? p->residual + row * p->ld_residual + column : NULL;
  if (columns == COLUMNS) {
    if (bias != NULL) result += *(const four_lanes*)bias;
    if (residual != NULL) result += *(const four_lanes*)residual;
    *(four_lanes*)y = result;
    return;
  }
  for (int c = 0; c < columns; c++) y[c] = result[c] + (bias != NULL ? bias[c] : 0) + (residual != NULL ? residual[c] : 0);
}

#if LANES == 16
/* The sums of 4 rows × 4 columns, in the order of NAME(sum4): lane m of the result has the 4 columns of row m. */
TARGET static inline __m512 NAME(sum16)(NAME(vector) sums[][COLUMNS]) {
  __m512 columns[COLUMNS];
  for (int c = 0; c < COLUMNS; c++) {
    __m512 a = (__m512)sums[0][c], b = (__m512)sums[1][c], d = (__m512)sums[2][c], e = (__m512)sums[3][c];
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    __m512 de = _mm512_add_ps(_mm512_shuffle_f32x4(d, e, 0x44), _mm512_shuffle_f32x4(d, e, 0xEE));
    columns[c] = _mm512_add_ps(_mm512_shuffle_f32x4(ab, de, 0x88), _mm512_shuffle_f32x4(ab, de, 0xDD));
  }
  __m512 low = _mm512_add_ps(_mm512_shuffle_ps(columns[0], columns[1], 0x44), _mm512_shuffle_ps(columns[0], columns[1], 0xEE));
  __m512 high = _mm512_add_ps(_mm512_shuffle_ps(columns[2], columns[3], 0x44), _mm512_shuffle_ps(columns[2], columns[3], 0xEE));
  return _mm512_add_ps(_mm512_shuffle_ps(low, high, 0x88), _mm512_shuffle_ps(low, high, 0xDD));
}
#endif

TARGET static inline void NAME(finish)(const call* p, NAME(vector) sums[][COLUMNS], int rows, int row, int column, int columns) {
#if LANES == 16
  if (rows == 4) {
    __m512 all = NAME(sum16)(sums);
    NAME(write)(p, (four_lanes)_mm512_extractf32x4_ps(all, 0), row, column, columns);
    NAME(write)(p, (four_lanes)_mm512_extractf32x4_ps(all, 1), row + 1, column, columns);
    NAME(write)(p, (four_lanes)_mm512_extractf32x4_ps(all, 2), row + 2, column, columns);
    NAME(write)(p, (four_lanes)_mm512_extractf32x4_ps(all, 3), row + 3, column, columns);
    return;
  }
#endif
  for (int m = 0; m < rows; m++) NAME(write)(p, NAME(sum4)(sums[m]), row + m, column, columns);
}

/* ---- few rows: weights pass from memory through registers into the sums ---- */

/* sums[m][c] += x[m, :] · w[c] for WIDTH columns of one unit. With registers for it, each vector of x is loaded once for all columns. */
#if LANES == 16
#define FUSED_UNIT(TYPE, ROWS, WIDTH)                                                                     \
  do {                                                                                                    \
    NAME(vector) unit[WIDTH][UNIT_VECTORS];                                                               \
    for (int c = 0; c < WIDTH; c++) NAME(unit_##TYPE)(at[c], unit[c]);                                    \
    for (int v = 0; v < UNIT_VECTORS; v++)                                                                \
      for (int m = 0; m < ROWS; m++) {                                                                    \
        NAME(vector) left = NAME(load)(x + m * ldx + v * LANES);                                          \
        for (int c = 0; c < WIDTH; c++) sums[m][c] += left * unit[c][v];                                  \
      }                                                                                                   \
  } while (0)
#else
#define FUSED_UNIT(TYPE, ROWS, WIDTH)                                                                     \
  for (int c = 0; c < WIDTH; c++) {                                                                       \
    NAME(vector) unit[UNIT_VECTORS];                                                                      \
    NAME(unit_##TYPE)(at[c], unit);                                                                       \
    for (int v = 0; v < UNIT_VECTORS; v++)                                                                \
      for (int m = 0; m < ROWS; m++) sums[m][c] += NAME(load)(x + m * ldx + v * LANES) * unit[v];         \
  }
#endif

/* ROWS rows × 4 columns over whole units, WIDTH columns at a time: more rows leave registers for fewer. The rows of columns that are not there
 * are those of the last one. */
#define FUSED(TYPE, ROWS, WIDTH, UNIT_BYTES)                                                                            \
  TARGET static void NAME(fused_##TYPE##_##ROWS)(const call* p, const uint8_t* const* w, NAME(vector) all[][COLUMNS]) { \
    int64_t ldx = p->ldx;                                                                                               \
    size_t ahead = p->row_bytes * PREFETCHED_COLUMNS;                                                                   \
    for (int first = 0; first < COLUMNS; first += WIDTH) {                                                              \
      NAME(vector) sums[ROWS][WIDTH] = {{{0}}};                                                                         \
      const uint8_t* at[WIDTH];                                                                                         \
      const float* x = p->x;                                                                                            \
      for (int c = 0; c < WIDTH; c++) at[c] = w[first + c];                                                             \
      for (int u = p->w->k / BLOCK_VALUES; u > 0; u--, x += BLOCK_VALUES) {                                             \
        FUSED_UNIT(TYPE, ROWS, WIDTH);                                                                                  \
        for (int c = 0; c < WIDTH; c++) __builtin_prefetch(at[c] + ahead), at[c] += UNIT_BYTES;                         \
      }                                                                                                                 \
      for (int m = 0; m < ROWS; m++)                                                                                    \
        for (int c = 0; c < WIDTH; c++) all[m][first + c] = sums[m][c];                                                 \
    }                                                                                                                   \
  }
#ifndef PREFETCHED_COLUMNS
#define PREFETCHED_COLUMNS 8
#endif
#if FUSED_ROWS == 8
#define FOR_EACH_FUSED(X, TYPE, UNIT_BYTES)                                                                             \
  X(TYPE, 1, 4, UNIT_BYTES) X(TYPE, 2, 4, UNIT_BYTES) X(TYPE, 3, 4, UNIT_BYTES) X(TYPE, 4, 4, UNIT_BYTES)               \
  X(TYPE, 5, 2, UNIT_BYTES) X(TYPE, 6, 2, UNIT_BYTES) X(TYPE, 7, 2, UNIT_BYTES) X(TYPE, 8, 2, UNIT_BYTES)
#elif FUSED_ROWS == 4
#define FOR_EACH_FUSED(X, TYPE, UNIT_BYTES)                                                                             \
  X(TYPE, 1, 4, UNIT_BYTES) X(TYPE, 2, 4, UNIT_BYTES) X(TYPE, 3, 4, UNIT_BYTES) X(TYPE, 4, 4, UNIT_BYTES)
#else
#define FOR_EACH_FUSED(X, TYPE, UNIT_BYTES) X(TYPE, 1, 4, UNIT_BYTES) X(TYPE, 2, 4, UNIT_BYTES)
#endif
#define FUSED_TYPE(TYPE, UNIT_BYTES) FOR_EACH_FUSED(FUSED, TYPE, UNIT_BYTES)
#define FUSED_NAME(TYPE, ROWS, WIDTH, UNIT_BYTES) NAME(fused_##TYPE##_##ROWS),
#define FUSED_NAMES(TYPE, UNIT_BYTES) {FOR_EACH_FUSED(FUSED_NAME, TYPE, UNIT_BYTES)},
FOR_EACH_WEIGHT_TYPE(FUSED_TYPE)

typedef void (*NAME(fused))(const call* p, const uint8_t* const* w, NAME(vector) sums[][COLUMNS]);

TARGET static void NAME(column_rows)(const call* p, int column, const uint8_t** w) {
  for (int c = 0; c < COLUMNS; c++) {
    int there = column + c < p->w->n ? column + c : p->w->n - 1;
    w[c] = (const uint8_t*)p->w->data + (size_t)there * p->row_bytes;
  }
}

TARGET static void NAME(fused_columns)(const call* p, int column, int columns) {
  static const NAME(fused) kernels[][FUSED_ROWS] = {FOR_EACH_WEIGHT_TYPE(FUSED_NAMES)};
  const uint8_t* w[COLUMNS];
  NAME(vector) sums[FUSED_ROWS][COLUMNS];
  NAME(column_rows)(p, column, w);
  kernels[p->w->type][p->m - 1](p, w, sums);
  int whole = p->w->k / BLOCK_VALUES * BLOCK_VALUES;
  if (whole < p->w->k) {
    float weights[COLUMNS][BLOCK_VALUES], values[BLOCK_VALUES] = {0};
    for (int c = 0; c < COLUMNS; c++) NAME(last_unit)(p, w[c], whole, weights[c]);
    for (int m = 0; m < p->m; m++) {
      memcpy(values, p->x + m * p->ldx + whole, (size_t)(p->w->k - whole) * sizeof *values);
      for (int c = 0; c < COLUMNS; c++)
        for (int v = 0; v < UNIT_VECTORS; v++) sums[m][c] += NAME(load)(values + v * LANES) * NAME(load)(weights[c] + v * LANES);
    }
  }
  for (int m = 0; m < p->m; m += DOT_ROWS) NAME(finish)(p, &sums[m], p->m - m < DOT_ROWS ? p->m - m : DOT_ROWS, m, column, columns);
}

/* ---- more rows: weights become float32 once a tile, and are read from the first-level cache ---- */

/* The values [first, first + count) of 4 columns, PANEL_STRIDE apart. `count` is filled up to whole units with zeros. */
#define MAKE_PANEL(TYPE, UNIT_BYTES)                                                                                          \
  TARGET static void NAME(panel_##TYPE)(const call* p, const uint8_t* const* w, int first, int count, float* panel) {        \
    for (int c = 0; c < COLUMNS; c++) {                                                                                       \
      const uint8_t* from = w[c] + (size_t)first / BLOCK_VALUES * UNIT_BYTES;                                                 \
      float* out = panel + c * PANEL_STRIDE;                                                                                  \
      int i = 0;                                                                                                              \
      for (; i + BLOCK_VALUES <= count; i += BLOCK_VALUES, from += UNIT_BYTES) {                                              \
        NAME(vector) unit[UNIT_VECTORS];                                                                                      \
        NAME(unit_##TYPE)(from, unit);                                                                                        \
        __builtin_prefetch(from + p->row_bytes * PREFETCHED_COLUMNS);                                                         \
        for (int v = 0; v < UNIT_VECTORS; v++) *(NAME(vector)*)(out + i + v * LANES) = unit[v];                               \
      }                                                                                                                       \
      if (i < count) NAME(last_unit)(p, w[c], first + i, out + i);                                                            \
    }                                                                                                                         \
  }
FOR_EACH_WEIGHT_TYPE(MAKE_PANEL)
#define PANEL_NAME(TYPE, UNIT_BYTES) NAME(panel_##TYPE),
typedef void (*NAME(make_panel))(const call* p, const uint8_t* const* w, int first, int count, float* panel);

/* sums[m][c] += x[m, :] · panel[c, :] for ROWS rows; `count` is a multiple of LANES. */
#define DOT(ROWS)                                                                                                              \
  TARGET static inline __attribute__((always_inline)) void NAME(dot_##ROWS)(const float* x, int64_t ldx, const float* panel,   \
                                                                            int count, NAME(vector) sums[][COLUMNS]) {         \
    for (int i = 0; i < count; i += LANES) {                                                                                   \
      NAME(vector) w[COLUMNS];                                                                                                 \
      for (int c = 0; c < COLUMNS; c++) w[c] = NAME(load)(panel + c * PANEL_STRIDE + i);                                       \
      for (int m = 0; m < ROWS; m++) {                                                                                         \
        NAME(vector) left = NAME(load)(x + m * ldx + i);                                                                       \
        for (int c = 0; c < COLUMNS; c++) sums[m][c] += left * w[c];                                                           \
      }                                                                                                                        \
    }                                                                                                                          \
  }                                                                                                                            \
  /* All of K at once: the sums never leave the registers. */                                                                  \
  TARGET static void NAME(whole_##ROWS)(const call* p, const float* panel, int row, int column, int columns) {                 \
    NAME(vector) sums[ROWS][COLUMNS] = {{{0}}};                                                                                \
    NAME(dot_##ROWS)(p->x + row * p->ldx, p->ldx, panel, p->w->k, sums);                                                       \
    NAME(finish)(p, sums, ROWS, row, column, columns);                                                                         \
  }                                                                                                                            \
  TARGET static void NAME(partial_##ROWS)(const float* x, int64_t ldx, const float* panel, int count, NAME(vector) all[][COLUMNS]) { \
    NAME(vector) sums[ROWS][COLUMNS];                                                                                          \
    memcpy(sums, all, sizeof sums);                                                                                            \
    NAME(dot_##ROWS)(x, ldx, panel, count, sums);                                                                              \
    memcpy(all, sums, sizeof sums);                                                                                            \
  }
DOT(1)
DOT(2)
DOT(3)
DOT(4)
typedef void (*NAME(whole))(const call* p, const float* panel, int row, int column, int columns);
typedef void (*NAME(partial))(const float* x, int64_t ldx, const float* panel, int count, NAME(vector) sums[][COLUMNS]);

/* Rows [top, bottom), at most TILE_ROWS, of 4 columns, K in pieces of a panel; what is left of K is filled up with zeros. */
TARGET static void NAME(tile_in_pieces)(const call* p, NAME(make_panel) make_panel, const uint8_t* const* w, float* panel, int top, int bottom,
                                        int column, int columns) {
  static const NAME(partial) partials[] = {NAME(partial_1), NAME(partial_2), NAME(partial_3), NAME(partial_4)};
  float padded[DOT_ROWS][BLOCK_VALUES];
  NAME(vector) sums[TILE_ROWS][COLUMNS];
  memset(sums, 0, (size_t)(bottom - top) * sizeof *sums);
  for (int first = 0; first < p->w->k; first += PANEL_VALUES) {
    int left = p->w->k - first, count = left < PANEL_VALUES ? left : PANEL_VALUES, whole = count / BLOCK_VALUES * BLOCK_VALUES;
    make_panel(p, w, first, count, panel);
    for (int m = top; m < bottom; m += DOT_ROWS) {
      int rows = bottom - m < DOT_ROWS ? bottom - m : DOT_ROWS;
      const float* x = p->x + m * p->ldx + first;
      partials[rows - 1](x, p->ldx, panel, whole, &sums[m - top]);
      if (whole == count) continue;
      memset(padded, 0, sizeof padded);
      for (int r = 0; r < rows; r++) memcpy(padded[r], x + r * p->ldx + whole, (size_t)(count - whole) * sizeof(float));
      partials[rows - 1](padded[0], BLOCK_VALUES, panel + whole, BLOCK_VALUES, &sums[m - top]);
    }
  }
  for (int m = top; m < bottom; m += DOT_ROWS) NAME(finish)(p, &sums[m - top], bottom - m < DOT_ROWS ? bottom - m : DOT_ROWS, m, column, columns);
}

TARGET static void NAME(tile)(const call* p, int top, int bottom, int column, int columns) {
  static const NAME(make_panel) panels[] = {FOR_EACH_WEIGHT_TYPE(PANEL_NAME)};
  static const NAME(whole) wholes[] = {NAME(whole_1), NAME(whole_2), NAME(whole_3), NAME(whole_4)};
  const uint8_t* w[COLUMNS];
  float panel[COLUMNS * PANEL_STRIDE] __attribute__((aligned(64)));
  NAME(make_panel) make_panel = panels[p->w->type];
  NAME(column_rows)(p, column, w);
  if (p->w->k > PANEL_VALUES || p->w->k % BLOCK_VALUES != 0) {
    NAME(tile_in_pieces)(p, make_panel, w, panel, top, bottom, column, columns);
    return;
  }
  make_panel(p, w, 0, p->w->k, panel);
  for (int m = top; m < bottom; m += DOT_ROWS) wholes[bottom - m < DOT_ROWS ? bottom - m - 1 : DOT_ROWS - 1](p, panel, m, column, columns);
}

TARGET static void NAME(columns)(const call* p, int first, int last) {
  for (int top = 0; top < p->m; top += TILE_ROWS) {
    int bottom = top + TILE_ROWS < p->m ? top + TILE_ROWS : p->m;
    for (int column = first; column < last; column += COLUMNS) {
      int columns = last - column < COLUMNS ? last - column : COLUMNS;
      if (p->m <= FUSED_ROWS) NAME(fused_columns)(p, column, columns);
      else NAME(tile)(p, top, bottom, column, columns);
    }
  }
}

#undef DOT
#undef MAKE_PANEL
#undef PANEL_NAME
#undef FUSED
#undef FUSED_UNIT
#undef FOR_EACH_FUSED
#undef FUSED_TYPE
#undef FUSED_NAME
#undef FUSED_NAMES
#undef UNIT_VECTORS
#undef NAME
#undef TARGET
#undef LANES
#undef FUSED_ROWS
#undef DOT_ROWS
