/* The CPU's kernels against plain loops in double precision, and against themselves: a row's bits must not depend on its company. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cpu/attention.h"
#include "cpu/elementwise.h"
#include "cpu/product.h"
#include "number_formats.h"

static uint32_t seed = 1;
static uint32_t next_random(void) { return seed = seed * 1664525 + 1013904223, seed >> 8; }
static float uniform(void) { return (float)next_random() / (float)(1 << 24) * 2 - 1; }

static void fill(float* values, size_t count) {
  for (size_t i = 0; i < count; i++) values[i] = uniform();
}

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
    block_kind kind = (block_kind)(type < WEIGHTS_BLOCKS_4 ? BLOCKS_NONE : type - WEIGHTS_BLOCKS_4 + BLOCKS_4);
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
  static const int rows[] = {1, 2, 3, 4, 5, 8, 17, 67};
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

/* ---- attention ---- */

enum { SLOTS = 3, CAPACITY = 700 };

static host_tensor tensor_of(void* data, int num_dims, const int* shape) {
  host_tensor t = {.data = data, .num_dims = num_dims};
  int64_t stride = 1;
  for (int i = num_dims - 1; i >= 0; stride *= shape[i--]) t.shape[i] = shape[i], t.strides[i] = stride;
  return t;
}

typedef struct attention_case {
  int heads, kv_heads, dim, window;
  float *keys, *values;
  uint8_t *key_bytes, *value_bytes; /* of a cache of 8 bits, else NULL */
} attention_case;

/* The values in a cache of 8 bits, written token by token; `values` becomes what that cache holds. */
static uint8_t* to_8_bits(const attention_case* c, float* values) {
  int width = c->dim + KV_SCALE_BYTES;
  uint8_t* bytes = malloc((size_t)SLOTS * (size_t)c->kv_heads * CAPACITY * (size_t)width);
  float* token = malloc((size_t)c->kv_heads * (size_t)c->dim * sizeof *token);
  write_cache_params params = {0, true};
  for (int32_t slot = 0; slot < SLOTS; slot++)
    for (int32_t position = 0; position < CAPACITY; position++) {
      float* heads[c->kv_heads];
      for (int h = 0; h < c->kv_heads; h++) {
        heads[h] = values + (((size_t)slot * (size_t)c->kv_heads + (size_t)h) * CAPACITY + (size_t)position) * (size_t)c->dim;
        memcpy(token + h * c->dim, heads[h], (size_t)c->dim * sizeof *token);
      }
      host_tensor inputs[] = {tensor_of(bytes, 4, (int[]){SLOTS, c->kv_heads, CAPACITY, width}), tensor_of(token, 3, (int[]){1, c->kv_heads, c->dim}),
                              tensor_of(&slot, 1, (int[]){1}), tensor_of(&position, 1, (int[]){1})};
      host_write_cache(&params, inputs, bytes);
      for (int h = 0; h < c->kv_heads; h++) {
        const uint8_t* written = bytes + (((size_t)slot * (size_t)c->kv_heads + (size_t)h) * CAPACITY + (size_t)position) * (size_t)width;
        float scale, most = 0;
        memcpy(&scale, written + c->dim, sizeof scale);
        for (int d = 0; d < c->dim; d++) {
          most = fmaxf(most, fabsf(heads[h][d]));
          float held = (float)(int8_t)written[d] * scale;
          if (fabsf(held - heads[h][d]) > 0.501f * scale) CHECK_VALUES(false, "%g is held as %g, scale %g", heads[h][d], held, scale);
          heads[h][d] = held;
        }
        CHECK(fabsf(scale - most / 127) <= 1e-6f * most);
      }
    }
  free(token);
  return bytes;
}

static void attend_tokens(const attention_case* c, float* q, int num_tokens, int32_t* slots, int32_t* seen, float* out) {
  bool is_8_bit = c->key_bytes != NULL;
  int width = c->dim + (is_8_bit ? KV_SCALE_BYTES : 0);
  attention_params params = {0.3f, c->heads, is_8_bit, c->window};
  host_tensor inputs[] = {tensor_of(q, 3, (int[]){num_tokens, c->heads, c->dim}),
                          tensor_of(is_8_bit ? (void*)c->key_bytes : c->keys, 4, (int[]){SLOTS, c->kv_heads, CAPACITY, width}),
                          tensor_of(is_8_bit ? (void*)c->value_bytes : c->values, 4, (int[]){SLOTS, c->kv_heads, CAPACITY, width}),
                          tensor_of(slots, 1, &num_tokens),
                          tensor_of(seen, 1, &num_tokens), tensor_of(seen, 1, &num_tokens)};
  host_attention(&params, inputs, out);
}

/* One head of one token by the definition. */
static void expected_head(const attention_case* c, const float* q, int slot, int kv_head, int seen, double* out) {
  size_t first = ((size_t)slot * (size_t)c->kv_heads + (size_t)kv_head) * CAPACITY;
  int from = c->window > 0 && seen - c->window + 1 > 0 ? seen - c->window + 1 : 0;
  double weights[CAPACITY], most = -INFINITY, total = 0;
  for (int k = from; k <= seen; k++) {
    weights[k] = 0;
    for (int d = 0; d < c->dim; d++) weights[k] += 0.3 * (double)q[d] * (double)c->keys[(first + (size_t)k) * (size_t)c->dim + (size_t)d];
    if (weights[k] > most) most = weights[k];
  }
  for (int d = 0; d < c->dim; d++) out[d] = 0;
  for (int k = from; k <= seen; k++) {
    double weight = exp(weights[k] - most);
    total += weight;
    for (int d = 0; d < c->dim; d++) out[d] += weight * (double)c->values[(first + (size_t)k) * (size_t)c->dim + (size_t)d];
  }
  for (int d = 0; d < c->dim; d++) out[d] /= total;
}

static void test_attention_case(int heads, int kv_heads, int dim, int window, bool is_8_bit) {
  enum { TOKENS = 45 };
  size_t cached = (size_t)SLOTS * (size_t)kv_heads * CAPACITY * (size_t)dim, width = (size_t)heads * (size_t)dim;
  attention_case c = {heads, kv_heads, dim, window, malloc(cached * sizeof(float)), malloc(cached * sizeof(float)), NULL, NULL};
  float *q = malloc(TOKENS * width * sizeof *q), *out = malloc(TOKENS * width * sizeof *q), *alone = malloc(width * sizeof *q);
  int32_t slots[TOKENS], seen[TOKENS];
  fill(c.keys, cached), fill(c.values, cached), fill(q, TOKENS * width);
  for (size_t i = 0; i < TOKENS * width; i++) q[i] *= 4;
  if (is_8_bit) c.key_bytes = to_8_bits(&c, c.keys), c.value_bytes = to_8_bits(&c, c.values);
  for (int t = 0; t < TOKENS; t++) slots[t] = t < 30 ? 0 : t < 31 ? 1 : 2, seen[t] = t < 30 ? 240 + t : t < 31 ? 0 : 640 + t;
  attend_tokens(&c, q, TOKENS, slots, seen, out);
  for (int t = 0; t < TOKENS; t++) {
    double worst = 0, expected[dim];
    for (int h = 0; h < heads; h++) {
      expected_head(&c, q + (size_t)t * width + (size_t)(h * dim), slots[t], h / (heads / kv_heads), seen[t], expected);
      for (int d = 0; d < dim; d++) worst = fmax(worst, fabs(expected[d] - out[(size_t)t * width + (size_t)(h * dim + d)]));
    }
    CHECK_VALUES(worst < 1e-5, "%d heads on %d of %d, window %d, token %d: error %g", heads, kv_heads, dim, window, t, worst);
    attend_tokens(&c, q + (size_t)t * width, 1, &slots[t], &seen[t], alone);
    CHECK_VALUES(memcmp(alone, out + (size_t)t * width, width * sizeof *q) == 0, "%d heads on %d: token %d differs from it alone", heads,
                 kv_heads, t);
  }
  free(c.keys), free(c.values), free(c.key_bytes), free(c.value_bytes), free(q), free(out), free(alone);
}

static void test_write_cache(void) {
  enum { HEADS = 2, DIM = 5, ROOM = 4 };
  float cache[SLOTS * HEADS * ROOM * DIM] = {0}, x[3 * 4 * DIM];
  int32_t slots[] = {2, 0, 0}, positions[] = {3, 0, 1};
  fill(x, 3 * 4 * DIM);
  host_tensor view = tensor_of(x, 3, (int[]){3, 4, DIM}); /* of four heads, two from the second on */
  view.shape[1] = HEADS;
  host_tensor inputs[] = {tensor_of(cache, 4, (int[]){SLOTS, HEADS, ROOM, DIM}), view, tensor_of(slots, 1, (int[]){3}),
                          tensor_of(positions, 1, (int[]){3})};
  write_cache_params params = {1, false};
  host_write_cache(&params, inputs, cache);
  int num_written = 0;
  for (int i = 0; i < SLOTS * HEADS * ROOM * DIM; i++) num_written += cache[i] != 0;
  CHECK(num_written == 3 * HEADS * DIM);
  for (int t = 0; t < 3; t++)
    for (int h = 0; h < HEADS; h++)
      CHECK(memcmp(cache + ((slots[t] * HEADS + h) * ROOM + positions[t]) * DIM, x + (t * 4 + 1 + h) * DIM, DIM * sizeof *x) == 0);
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

int main(void) {
  test_products();
  test_blocks_keep_values();
  test_blocks_are_exact();
  test_attention_case(9, 3, 64, 0, false);
  test_attention_case(4, 4, 16, 0, false);
  test_attention_case(32, 1, 20, 0, false);
  test_attention_case(3, 3, 72, 50, false);
  test_attention_case(8, 2, 128, 300, false);
  test_attention_case(9, 3, 64, 0, true);
  test_attention_case(6, 2, 20, 170, true);
  test_write_cache();
  test_elementwise();
  test_rope();
  return finish();
}
