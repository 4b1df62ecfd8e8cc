/* The CPU's attention against its definition in double precision, and against itself: a token's bits must not depend on its company. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cpu/attention.h"
#include "kernel_inputs.h"

enum { SLOTS = 3, CAPACITY = 700 };

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

/* Keys and values may have room for different numbers of tokens. */
static void test_rooms(void) {
  enum { HEADS = 6, KV_HEADS = 2, DIM = 16, ROOM = 40, MORE = 56, TOKENS = 7, HEADS_OF_ALL = 2 * KV_HEADS };
  float keys[HEADS_OF_ALL * ROOM * DIM], values[HEADS_OF_ALL * ROOM * DIM], more[HEADS_OF_ALL * MORE * DIM] = {0}, q[TOKENS * HEADS * DIM];
  float out[2][TOKENS * HEADS * DIM];
  int32_t slots[TOKENS] = {0, 1, 1, 1, 1, 1, 1}, seen[TOKENS] = {30, 33, 34, 35, 36, 37, 38};
  fill(keys, HEADS_OF_ALL * ROOM * DIM), fill(values, HEADS_OF_ALL * ROOM * DIM), fill(q, TOKENS * HEADS * DIM);
  for (int h = 0; h < HEADS_OF_ALL; h++) memcpy(more + h * MORE * DIM, values + h * ROOM * DIM, ROOM * DIM * sizeof *values);
  attention_params params = {0.25f, HEADS, false, 0};
  host_tensor step = tensor_of(slots, 1, (int[]){TOKENS}), last = tensor_of(seen, 1, (int[]){TOKENS});
  host_tensor inputs[] = {tensor_of(q, 3, (int[]){TOKENS, HEADS, DIM}), tensor_of(keys, 4, (int[]){2, KV_HEADS, ROOM, DIM}),
                          tensor_of(values, 4, (int[]){2, KV_HEADS, ROOM, DIM}), step, last, last};
  host_attention(&params, inputs, out[0]);
  inputs[2] = tensor_of(more, 4, (int[]){2, KV_HEADS, MORE, DIM});
  host_attention(&params, inputs, out[1]);
  CHECK(memcmp(out[0], out[1], sizeof *out) == 0);
}

int main(void) {
  test_rooms();
  test_attention_case(9, 3, 64, 0, false);
  test_attention_case(4, 4, 16, 0, false);
  test_attention_case(32, 1, 20, 0, false);
  test_attention_case(3, 3, 72, 50, false);
  test_attention_case(8, 2, 128, 300, false);
  test_attention_case(9, 3, 64, 0, true);
  test_attention_case(6, 2, 20, 170, true);
  test_write_cache();
  return finish();
}
