/* The CPU's products and element-wise kernels against plain loops in double precision, and against themselves: a row's bits must not depend on
 * its company. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cpu/elementwise.h"
#include "cpu/product.h"
#include "kernel_inputs.h"
#include "number_formats.h"

/* ---- products ---- */

static const char* const type_names[] = {"f32", "f16", "bf16", "blocks_4", "blocks_8", "blocks_8_halves"};

/* A random matrix as it is stored. */
static uint8_t* make_weights(weight_type type, int n, int k) {
  size_t row_bytes = weight_row_bytes(type, k);
  uint8_t* data = malloc(row_bytes * (size_t)n);
  for (int r = 0; r < n; r++) {
    uint8_t* row = data + row_bytes * (size_t)r;
    for (int i = 0; i < k && type == WEIGHTS_F32; i++) ((float*)row)[i] = uniform();
    for (int i = 0; i < k && type == WEIGHTS_F16; i++) ((uint16_t*)row)[i] = float_to_half(uniform());
    for (int i = 0; i < k && type == WEIGHTS_BF16; i++) ((uint16_t*)row)[i] = float_to_bfloat(uniform());
    block_kind kind = weight_blocks(type);
    for (int i = 0; kind != BLOCKS_NONE && i < k / BLOCK_VALUES; i++) {
      value_group g;
      for (int v = 0; v < BLOCK_VALUES; v++) g.values[v] = (uint8_t)(next_random() & (kind == BLOCKS_4 ? 15 : 255));
      for (int half = 0; half < 2; half++) g.scales[half] = uniform() / 16, g.biases[half] = uniform();
      if (kind != BLOCKS_8_HALVES) g.scales[1] = g.scales[0], g.biases[1] = g.biases[0];
      block_write(kind, &g, row + (size_t)i * block_bytes(kind));
    }
  }
  return data;
}

/* y in double precision, and how far off a float32 sum may be. */
static void check_product(const product_weights* w, const float* x, int m, const float* bias, const float* y) {
  float* row = malloc((size_t)w->k * sizeof *row);
  double worst = 0;
  for (int n = 0; n < w->n; n++) {
    product_weights_row(w, n, row);
    for (int i = 0; i < m; i++) {
      double sum = bias != NULL ? bias[n] : 0, size = 1;
      for (int k = 0; k < w->k; k++) sum += (double)x[i * w->k + k] * row[k], size += fabs((double)x[i * w->k + k] * row[k]);
      double error = fabs(sum - y[i * w->n + n]) / size;
      if (!(error <= worst)) worst = error;
    }
  }
  CHECK_VALUES(worst < 2e-6, "%s %d x %d, %d rows: error %g", type_names[w->type], w->n, w->k, m, worst);
  free(row);
}

static void test_products(void) {
  static const int shapes[][2] = {{7, 32}, {64, 576}, {13, 1536}, {10, 1568}, {9, 3104}, {160, 64}}, odd[][2] = {{5, 1}, {6, 33}, {11, 1541}, {3, 100}};
  static const int rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 67};
  for (weight_type type = WEIGHTS_F32; type <= WEIGHTS_BLOCKS_8_HALVES; type++) {
    for (int s = 0; s < (type < WEIGHTS_BLOCKS_4 ? 10 : 6); s++) {
      const int* shape = s < 6 ? shapes[s] : odd[s - 6];
      product_weights w = {type, make_weights(type, shape[0], shape[1]), shape[0], shape[1], false, 0};
      float *x = malloc(67 * (size_t)w.k * sizeof *x), *y = malloc(67 * (size_t)w.n * sizeof *y), *alone = malloc((size_t)w.n * sizeof *y);
      float* bias = malloc((size_t)w.n * sizeof *bias);
      fill(x, 67 * (size_t)w.k), fill(bias, (size_t)w.n);
      for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const float* added = r % 2 == 0 ? bias : NULL;
        product(&w, x, w.k, rows[r], added, y, w.n);
        check_product(&w, x, rows[r], added, y);
        for (int i = 0; i < rows[r]; i++) {
          product(&w, x + i * w.k, w.k, 1, added, alone, w.n);
          CHECK_VALUES(memcmp(alone, y + i * w.n, (size_t)w.n * sizeof *y) == 0, "%s %d x %d: row %d of %d differs from it alone",
                       type_names[type], w.n, w.k, i, rows[r]);
        }
      }
      free((void*)w.data), free(x), free(y), free(alone), free(bias);
    }
  }
}

static void test_blocks_keep_values(void) {
  for (block_kind kind = BLOCKS_4; kind <= BLOCKS_8_HALVES; kind++) {
    value_group g = {.scales = {0.5f, 0.5f}, .biases = {-3, -3}};
    float values[BLOCK_VALUES];
    uint8_t block[sizeof(block_8_halves)] __attribute__((aligned(4)));
    if (kind == BLOCKS_8_HALVES) g.scales[1] = 0.25f, g.biases[1] = 7;
    for (int i = 0; i < BLOCK_VALUES; i++) g.values[i] = (uint8_t)(next_random() & (kind == BLOCKS_4 ? 15 : 255));
    block_write(kind, &g, block);
    blocks_to_floats(kind, block, 1, values);
    for (int i = 0; i < BLOCK_VALUES; i++) CHECK(values[i] == g.scales[i / 16] * (float)g.values[i] + g.biases[i / 16]);
  }
}

/* A product with blocks has the bits of one with the dequantized matrix. */
static void test_blocks_are_exact(void) {
  for (weight_type type = WEIGHTS_F16; type <= WEIGHTS_BLOCKS_8_HALVES; type++) {
    product_weights w = {type, make_weights(type, 40, 576), 40, 576, false, 0}, dense = {WEIGHTS_F32, malloc(40 * 576 * 4), 40, 576, false, 0};
    float x[9 * 576], y[9 * 40], expected[9 * 40];
    for (int n = 0; n < w.n; n++) product_weights_row(&w, n, (float*)dense.data + n * w.k);
    fill(x, 9 * 576);
    for (int m = 1; m <= 9; m += 8) {
      product(&w, x, w.k, m, NULL, y, w.n);
      product(&dense, x, w.k, m, NULL, expected, w.n);
      CHECK_VALUES(memcmp(y, expected, (size_t)m * 40 * sizeof *y) == 0, "%s, %d rows", type_names[type], m);
    }
    free((void*)w.data), free((void*)dense.data);
  }
}

/* ---- element-wise ---- */

static void test_elementwise(void) {
  enum { ROWS = 300, WIDTH = 203 };
  float *x = malloc(ROWS * 2 * WIDTH * sizeof *x), *y = malloc(ROWS * 2 * WIDTH * sizeof *x), weight[2 * WIDTH];
  fill(x, ROWS * 2 * WIDTH), fill(weight, 2 * WIDTH);
  for (int i = 0; i < ROWS * 2 * WIDTH; i++) x[i] *= i % 97 == 0 ? 200.0f : 8.0f;
  host_tensor inputs[] = {tensor_of(x, 2, (int[]){ROWS, 2 * WIDTH}), tensor_of(weight, 1, (int[]){2 * WIDTH})};
  host_swiglu("", inputs, y);
  for (int i = 0; i < ROWS * WIDTH; i++) {
    double gate = x[i / WIDTH * 2 * WIDTH + i % WIDTH], up = x[i / WIDTH * 2 * WIDTH + WIDTH + i % WIDTH], expected = gate / (1 + exp(-gate)) * up;
    CHECK_VALUES(fabs(expected - y[i]) <= 1e-6 * fabs(expected) + 1e-30, "swiglu of %g: %g, expected %g", gate, y[i], expected);
  }
  host_geglu("", inputs, y);
  for (int i = 0; i < ROWS * WIDTH; i++) {
    double gate = x[i / WIDTH * 2 * WIDTH + i % WIDTH], up = x[i / WIDTH * 2 * WIDTH + WIDTH + i % WIDTH];
    double expected = gate / 2 * (1 + tanh(sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate))) * up;
    CHECK_VALUES(fabs(expected - y[i]) <= 2e-6 * fabs(expected) + 1e-6, "geglu of %g: %g, expected %g", gate, y[i], expected);
  }
  for (int has_weight = 0; has_weight < 2; has_weight++) {
    rms_norm_params params = {1e-5f, has_weight};
    host_rms_norm(&params, inputs, y);
    for (int r = 0; r < ROWS; r++) {
      double squares = 0;
      for (int i = 0; i < 2 * WIDTH; i++) squares += (double)x[r * 2 * WIDTH + i] * x[r * 2 * WIDTH + i];
      double scale = 1 / sqrt(squares / (2 * WIDTH) + 1e-5);
      for (int i = 0; i < 2 * WIDTH; i++) {
        double expected = x[r * 2 * WIDTH + i] * scale * (has_weight ? weight[i] : 1);
        CHECK_VALUES(fabs(expected - y[r * 2 * WIDTH + i]) <= 1e-6 * fabs(expected) + 1e-30, "norm of row %d: %g, expected %g", r,
                     y[r * 2 * WIDTH + i], expected);
      }
    }
  }
  free(x), free(y);
}

static void test_rope(void) {
  enum { TOKENS = 3, HEADS = 2, DIM = 10, DIMS = 6 };
  float x[TOKENS * HEADS * DIM], y[TOKENS * HEADS * DIM], cosines[TOKENS * DIMS], sines[TOKENS * DIMS];
  fill(x, TOKENS * HEADS * DIM);
  for (int t = 0; t < TOKENS; t++)
    for (int i = 0; i < DIMS; i++) {
      float angle = (float)(t + 1) * 0.7f / (float)(1 + i % (DIMS / 2));
      cosines[t * DIMS + i] = cosf(angle), sines[t * DIMS + i] = i < DIMS / 2 ? -sinf(angle) : sinf(angle);
    }
  rope_params params = {DIMS};
  host_tensor inputs[] = {tensor_of(x, 3, (int[]){TOKENS, HEADS, DIM}), tensor_of(cosines, 1, (int[]){TOKENS * DIMS}),
                          tensor_of(sines, 1, (int[]){TOKENS * DIMS})};
  host_rope(&params, inputs, y);
  for (int i = 0; i < TOKENS * HEADS * DIM; i++) {
    int token = i / (HEADS * DIM), d = i % DIM, pair = d < DIMS / 2 ? d + DIMS / 2 : d - DIMS / 2;
    double expected = d < DIMS ? x[i] * cosines[token * DIMS + d] + x[i - d + pair] * sines[token * DIMS + d] : x[i];
    CHECK(fabs(expected - y[i]) < 1e-6);
  }
}

/* Squared distance of a group's values from `values`. */
static double group_error(const float* values, const value_group* g) {
  double sum = 0;
  for (int i = 0; i < BLOCK_VALUES; i++) sum += pow((double)g->scales[i / 16] * g->values[i] + (double)g->biases[i / 16] - (double)values[i], 2);
  return sum;
}

static void test_rounding_to_blocks(void) {
  for (int bits = 4; bits <= 8; bits += 4) {
    double most = (1 << bits) - 1, error = 0, plain_error = 0;
    for (int round = 0; round < 200; round++) {
      float values[BLOCK_VALUES], low = INFINITY, high = -INFINITY;
      value_group g, plain;
      for (int i = 0; i < BLOCK_VALUES; i++) values[i] = powf(uniform(), 3), low = fminf(low, values[i]), high = fmaxf(high, values[i]);
      block_quantize(values, bits, &g);
      for (int half = 0; half < 2; half++) plain.scales[half] = (float)((high - low) / most), plain.biases[half] = low;
      for (int i = 0; i < BLOCK_VALUES; i++) {
        CHECK_VALUES(g.values[i] <= most, "%d bits: %d", bits, g.values[i]);
        plain.values[i] = (uint8_t)lroundf((values[i] - low) / plain.scales[0]);
      }
      error += group_error(values, &g), plain_error += group_error(values, &plain);
      /* what lies on such a line already stays as it is */
      for (int i = 0; i < BLOCK_VALUES; i++) values[i] = plain.scales[0] * plain.values[i] + low;
      block_quantize(values, bits, &g);
      CHECK_VALUES(group_error(values, &g) < 1e-12, "%d bits: error %g on a line", bits, group_error(values, &g));
    }
    CHECK_VALUES(error < (bits == 4 ? 0.97 : 1.01) * plain_error && error > 0, "%d bits: error %g, %g without a fit", bits, error, plain_error);
  }
  float same[BLOCK_VALUES];
  value_group g;
  for (int i = 0; i < BLOCK_VALUES; i++) same[i] = -2.5f;
  block_quantize(same, 4, &g);
  CHECK(group_error(same, &g) == 0);
}

int main(void) {
  test_products();
  test_rounding_to_blocks();
  test_blocks_keep_values();
  test_blocks_are_exact();
  test_elementwise();
  test_rope();
  return finish();
}
