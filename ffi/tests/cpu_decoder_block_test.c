/* The halves of a block as one operation against the kernels that they are made of, one by one: the same bits. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cpu/decoder_block.h"
#include "cpu/elementwise.h"
#include "kernel_inputs.h"

enum { MAX_TOKENS = 70, HIDDEN = 96, HEADS = 6, KV_HEADS = 2, DIM = 16, ROPE_DIMS = 12, WIDTH = 160, NUM_SLOTS = 3, ROOM = 80 };
enum { QK = HEADS + KV_HEADS, QKV_HEADS = QK + KV_HEADS, CACHE = NUM_SLOTS * KV_HEADS * ROOM * DIM };

typedef struct variant {
  bool has_after_norm, has_qk_norm, has_rope, has_bias, is_in_place, is_gelu;
  int num_tokens;
} variant;

static const variant variants[] = {
    {.num_tokens = 1, .has_rope = true},
    {.num_tokens = 5, .has_rope = true, .has_bias = true, .is_in_place = true},
    {.num_tokens = 7, .has_after_norm = true, .has_qk_norm = true, .has_rope = true, .is_in_place = true, .is_gelu = true},
    {.num_tokens = MAX_TOKENS, .has_after_norm = true, .has_bias = true, .is_gelu = true},
    {.num_tokens = MAX_TOKENS, .has_qk_norm = true, .has_rope = true, .is_in_place = true},
};

static float x[MAX_TOKENS * HIDDEN], y[MAX_TOKENS * HIDDEN], expected[MAX_TOKENS * HIDDEN], keys[2][CACHE], values[2][CACHE];
static float norm[HIDDEN], after_norm[HIDDEN], qk_norm[QK * DIM], cosines[MAX_TOKENS * ROPE_DIMS], sines[MAX_TOKENS * ROPE_DIMS];
static float bias[2 * WIDTH], first[2 * WIDTH * HIDDEN], second[HIDDEN * WIDTH], scratch[1 << 20];
static float normed[MAX_TOKENS * HIDDEN], wide[MAX_TOKENS * 2 * WIDTH], heads[2][MAX_TOKENS * QK * DIM], middle[MAX_TOKENS * WIDTH];
static int32_t slots[MAX_TOKENS], positions[MAX_TOKENS];

static host_tensor vector_of(float* data, int size) { return tensor_of(data, 1, (int[]){size}); }

static void fill_all(void) {
  fill(x, MAX_TOKENS * HIDDEN), fill(norm, HIDDEN), fill(after_norm, HIDDEN), fill(qk_norm, QK * DIM), fill(bias, 2 * WIDTH);
  fill(first, 2 * WIDTH * HIDDEN), fill(second, HIDDEN * WIDTH), fill(cosines, MAX_TOKENS * ROPE_DIMS), fill(sines, MAX_TOKENS * ROPE_DIMS);
  fill(keys[0], CACHE), fill(values[0], CACHE);
  memcpy(keys[1], keys[0], sizeof *keys), memcpy(values[1], values[0], sizeof *values);
}

/* Two rows: one decodes behind its 9 tokens, the other has the rest of the step. */
static void plan_tokens(int num_tokens) {
  for (int t = 0; t < num_tokens; t++) slots[t] = t == 0 ? 0 : 2, positions[t] = t == 0 ? 9 : t + 1;
}

static void make_inputs(host_tensor* inputs, int tokens, bool has_rope) {
  host_tensor step = tensor_of(slots, 1, (int[]){tokens}), seen = tensor_of(positions, 1, (int[]){tokens});
  inputs[INPUT_X] = tensor_of(x, 2, (int[]){tokens, HIDDEN});
  inputs[INPUT_KEYS] = tensor_of(keys[0], 4, (int[]){NUM_SLOTS, KV_HEADS, ROOM, DIM});
  inputs[INPUT_VALUES] = tensor_of(values[0], 4, (int[]){NUM_SLOTS, KV_HEADS, ROOM, DIM});
  inputs[INPUT_SLOTS] = step, inputs[INPUT_POSITIONS] = inputs[INPUT_LAST_SEEN] = inputs[INPUT_WINDOW_FROM] = seen;
  inputs[INPUT_ATTENTION_SCRATCH] = vector_of(scratch, 1 << 20);
  inputs[INPUT_COSINES] = inputs[INPUT_SINES] = (host_tensor){0};
  if (!has_rope) return;
  inputs[INPUT_COSINES] = tensor_of(cosines, 4, (int[]){tokens, 1, 2, ROPE_DIMS / 2});
  inputs[INPUT_SINES] = tensor_of(sines, 4, (int[]){tokens, 1, 2, ROPE_DIMS / 2});
}

/* A norm's weight, or that a layer has none. */
static host_tensor weight_of(bool is_there, float* data, int size) { return is_there ? vector_of(data, size) : (host_tensor){0}; }

/* A layer in as many parts as `sizes` has numbers. */
static host_linear linear_of(float* data, const int* sizes, int num_parts, int k, bool has_bias) {
  host_linear l = {.num_parts = num_parts, .bias = has_bias ? bias : NULL};
  for (int i = 0; i < num_parts; data += sizes[i++] * k) l.parts[i] = (product_weights){.type = WEIGHTS_F32, .data = data, .n = sizes[i], .k = k};
  return l;
}

static void one_product(const float* from, int tokens, float* data, int n, int k, bool has_bias, float* to) {
  product_weights w = {.type = WEIGHTS_F32, .data = data, .n = n, .k = k};
  product(&w, from, k, tokens, has_bias ? bias : NULL, to, n);
}

static void one_norm(host_tensor from, host_tensor weight, float* to) {
  host_rms_norm(&(rms_norm_params){1e-5f, 1}, (const host_tensor[]){from, weight}, to);
}

/* expected = x + after_norm(second · middle). */
static void expect_residual(const variant* v, int k, bool has_bias) {
  one_product(middle, v->num_tokens, second, HIDDEN, k, has_bias, expected);
  if (v->has_after_norm) {
    memcpy(normed, expected, sizeof normed);
    one_norm(tensor_of(normed, 2, (int[]){v->num_tokens, HIDDEN}), vector_of(after_norm, HIDDEN), expected);
  }
  for (int i = 0; i < v->num_tokens * HIDDEN; i++) expected[i] = x[i] + expected[i];
}

static void expect_attention(const variant* v, const host_tensor* inputs, const attention_params* attention) {
  int tokens = v->num_tokens;
  one_norm(inputs[INPUT_X], vector_of(norm, HIDDEN), normed);
  one_product(normed, tokens, first, QKV_HEADS * DIM, HIDDEN, v->has_bias, wide);
  for (int t = 0; t < tokens; t++) memcpy(heads[0] + t * QK * DIM, wide + t * QKV_HEADS * DIM, QK * DIM * sizeof *wide);
  host_tensor qk = tensor_of(heads[0], 3, (int[]){tokens, QK, DIM}), v_heads = tensor_of(wide, 3, (int[]){tokens, QKV_HEADS, DIM});
  for (int i = 0; v->has_qk_norm && i < tokens * QK; i++)
    one_norm(vector_of(heads[0] + i * DIM, DIM), vector_of(qk_norm + i % QK * DIM, DIM), heads[1] + i * DIM);
  if (v->has_qk_norm) memcpy(heads[0], heads[1], sizeof *heads);
  if (v->has_rope) {
    host_rope(&(rope_params){ROPE_DIMS}, (const host_tensor[]){qk, inputs[INPUT_COSINES], inputs[INPUT_SINES]}, heads[1]);
    qk.data = heads[1];
  }
  host_tensor cached_keys = inputs[INPUT_KEYS], cached_values = inputs[INPUT_VALUES];
  cached_keys.data = keys[1], cached_values.data = values[1];
  host_write_cache(&(write_cache_params){HEADS, false}, (const host_tensor[]){cached_keys, qk, inputs[INPUT_SLOTS], inputs[INPUT_POSITIONS]}, keys[1]);
  host_write_cache(&(write_cache_params){QK, false}, (const host_tensor[]){cached_values, v_heads, inputs[INPUT_SLOTS], inputs[INPUT_POSITIONS]},
                   values[1]);
  host_attention(attention, (const host_tensor[]){qk, cached_keys, cached_values, inputs[INPUT_SLOTS], inputs[INPUT_POSITIONS], inputs[INPUT_POSITIONS]},
                 middle);
  expect_residual(v, HEADS * DIM, v->has_bias);
}

static void check_output(const char* half, const variant* v, const float* output) {
  CHECK_VALUES(memcmp(output, expected, (size_t)v->num_tokens * HIDDEN * sizeof *output) == 0, "%s of %d tokens: %g, expected %g", half,
               v->num_tokens, output[0], expected[0]);
}

static void test_attention(const variant* v) {
  host_tensor inputs[NUM_ATTENTION_INPUTS];
  fill_all(), plan_tokens(v->num_tokens), make_inputs(inputs, v->num_tokens, v->has_rope);
  attention_block_params p = {.eps = 1e-5f, .attention = {0.25f, HEADS, false, 11}, .num_kv_heads = KV_HEADS, .head_dim = DIM};
  p.norm = vector_of(norm, HIDDEN), p.after_norm = weight_of(v->has_after_norm, after_norm, HIDDEN);
  if (v->has_qk_norm) p.qk_norm = tensor_of(qk_norm, 2, (int[]){QK, DIM});
  p.qkv = linear_of(first, (int[]){HEADS * DIM, KV_HEADS * DIM, KV_HEADS * DIM}, 3, HIDDEN, v->has_bias);
  p.output = linear_of(second, (int[]){HIDDEN}, 1, HEADS * DIM, v->has_bias);
  expect_attention(v, inputs, &p.attention);
  size_t used = attention_block_scratch_bytes(&p, v->num_tokens) / sizeof *scratch;
  scratch[used] = 17;
  float* output = v->is_in_place ? x : y;
  host_attention_block(&p, inputs, output);
  check_output("attention", v, output);
  CHECK(scratch[used] == 17);
  CHECK(memcmp(keys[0], keys[1], sizeof *keys) == 0 && memcmp(values[0], values[1], sizeof *values) == 0);
}

static void test_mlp(const variant* v) {
  fill_all();
  host_tensor inputs[NUM_MLP_INPUTS] = {[INPUT_X] = tensor_of(x, 2, (int[]){v->num_tokens, HIDDEN}), [INPUT_MLP_SCRATCH] = vector_of(scratch, 1 << 20)};
  mlp_block_params p = {.eps = 1e-5f, .is_gelu = v->is_gelu};
  p.norm = vector_of(norm, HIDDEN), p.after_norm = weight_of(v->has_after_norm, after_norm, HIDDEN);
  p.gate_up = linear_of(first, (int[]){WIDTH, WIDTH}, 2, HIDDEN, v->has_bias);
  p.down = linear_of(second, (int[]){HIDDEN}, 1, WIDTH, false);
  one_norm(inputs[INPUT_X], p.norm, normed);
  one_product(normed, v->num_tokens, first, 2 * WIDTH, HIDDEN, v->has_bias, wide);
  host_tensor gate_up = tensor_of(wide, 2, (int[]){v->num_tokens, 2 * WIDTH});
  (v->is_gelu ? host_geglu : host_swiglu)("", &gate_up, middle);
  expect_residual(v, WIDTH, false);
  size_t used = mlp_block_scratch_bytes(&p, v->num_tokens) / sizeof *scratch;
  scratch[used] = 17;
  float* output = v->is_in_place ? x : y;
  host_mlp_block(&p, inputs, output);
  check_output("MLP", v, output);
  CHECK(scratch[used] == 17);
}

int main(void) {
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) test_attention(&variants[i]), test_mlp(&variants[i]);
  return finish();
}
