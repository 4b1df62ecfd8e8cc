#include "elementwise.h"

#include <math.h>
#include <string.h>

#include "vector_math.h"
#include "workers.h"

/* Rows of work that are worth sharing among threads, in floats. */
enum { MIN_SHARED_FLOATS = 1 << 15, PARTS_PER_THREAD = 4 };

typedef struct rows_call {
  const void* params;
  const host_tensor* inputs;
  float* output;
  int num_rows;
  void (*row)(const struct rows_call* c, int row);
} rows_call;

static void rows_part(void* work, int index, int count) {
  const rows_call* c = work;
  int last = (int)((int64_t)c->num_rows * (index + 1) / count);
  for (int row = (int)((int64_t)c->num_rows * index / count); row < last; row++) c->row(c, row);
}

static void for_rows(rows_call* c, int row_floats) {
  if ((int64_t)c->num_rows * row_floats < MIN_SHARED_FLOATS) rows_part(c, 0, 1);
  else workers_run(rows_part, c, PARTS_PER_THREAD * workers_count());
}

static int num_rows(const host_tensor* t) {
  int rows = 1;
  for (int i = 0; i < t->num_dims - 1; i++) rows *= t->shape[i];
  return rows;
}

/* Row `row` of all axes but the last. */
static const float* row_of(const host_tensor* t, int row) {
  const float* p = t->data;
  for (int i = t->num_dims - 2; i >= 0; row /= t->shape[i--]) p += row % t->shape[i] * t->strides[i];
  return p;
}

static floats8 load8(const float* p) { return *(const floats8*)p; }

static void rms_norm_row(const rows_call* c, int row) {
  const rms_norm_params* p = c->params;
  int size = c->inputs[0].shape[c->inputs[0].num_dims - 1], i = 0;
  const float *x = row_of(&c->inputs[0], row), *weight = p->has_weight ? c->inputs[1].data : NULL;
  if (p->has_weight && c->inputs[1].num_dims == 2) weight += (size_t)(row % c->inputs[1].shape[0]) * (size_t)size;
  float* y = c->output + (size_t)row * (size_t)size;
  floats8 sums = {0};
  for (; i + 8 <= size; i += 8) sums += load8(x + i) * load8(x + i);
  float sum = sum8(sums);
  for (; i < size; i++) sum = __builtin_fmaf(x[i], x[i], sum);
  float scale = 1 / sqrtf(sum / (float)size + p->eps);
  for (i = 0; i < size; i++) y[i] = weight != NULL ? x[i] * scale * weight[i] : x[i] * scale;
}

void host_rms_norm(const void* params, const host_tensor* inputs, void* output) {
  rows_call c = {params, inputs, output, num_rows(&inputs[0]), rms_norm_row};
  for_rows(&c, inputs[0].shape[inputs[0].num_dims - 1]);
}

static void add_row(const rows_call* c, int row) {
  int size = c->inputs[0].shape[c->inputs[0].num_dims - 1];
  const float *a = row_of(&c->inputs[0], row), *b = row_of(&c->inputs[1], row);
  float* y = c->output + (size_t)row * (size_t)size;
  for (int i = 0; i < size; i++) y[i] = a[i] + b[i];
}

void host_add(const void* params, const host_tensor* inputs, void* output) {
  rows_call c = {params, inputs, output, num_rows(&inputs[0]), add_row};
  for_rows(&c, inputs[0].shape[inputs[0].num_dims - 1]);
}

static floats8 silu8(floats8 x) { return x / (exp8(-x) + 1.0f); }

static floats8 gelu8(floats8 x) { return x / (exp8((x + x * x * x * 0.044715f) * -1.5957691f) + 1.0f); }

static inline __attribute__((always_inline)) void gated_row(const rows_call* c, int row, floats8 (*bend)(floats8)) {
  int width = c->inputs[0].shape[c->inputs[0].num_dims - 1] / 2, i = 0;
  const float *gate = row_of(&c->inputs[0], row), *up = gate + width;
  float* y = c->output + (size_t)row * (size_t)width;
  for (; i + 8 <= width; i += 8) *(floats8*)(y + i) = bend(load8(gate + i)) * load8(up + i);
  if (i == width) return;
  float last[8] = {0};
  memcpy(last, gate + i, (size_t)(width - i) * sizeof *last);
  floats8 bent = bend(load8(last));
  for (int lane = 0; i < width; i++, lane++) y[i] = bent[lane] * up[i];
}

static void swiglu_row(const rows_call* c, int row) { gated_row(c, row, silu8); }
static void geglu_row(const rows_call* c, int row) { gated_row(c, row, gelu8); }

void host_swiglu(const void* params, const host_tensor* inputs, void* output) {
  rows_call c = {params, inputs, output, num_rows(&inputs[0]), swiglu_row};
  for_rows(&c, 4 * inputs[0].shape[inputs[0].num_dims - 1]);
}

void host_geglu(const void* params, const host_tensor* inputs, void* output) {
  rows_call c = {params, inputs, output, num_rows(&inputs[0]), geglu_row};
  for_rows(&c, 4 * inputs[0].shape[inputs[0].num_dims - 1]);
}

static void rope_row(const rows_call* c, int row) {
  const rope_params* p = c->params;
  int num_heads = c->inputs[0].shape[1], head_dim = c->inputs[0].shape[2], half = p->dims / 2, token = row / num_heads;
  const float *x = row_of(&c->inputs[0], row), *cosines = (const float*)c->inputs[1].data + (size_t)token * (size_t)p->dims;
  const float* sines = (const float*)c->inputs[2].data + (size_t)token * (size_t)p->dims;
  float* y = c->output + (size_t)row * (size_t)head_dim;
  for (int i = 0; i < half; i++) {
    y[i] = x[i] * cosines[i] + x[half + i] * sines[i];
    y[half + i] = x[half + i] * cosines[half + i] + x[i] * sines[half + i];
  }
  for (int i = p->dims; i < head_dim; i++) y[i] = x[i];
}

void host_rope(const void* params, const host_tensor* inputs, void* output) {
  rows_call c = {params, inputs, output, num_rows(&inputs[0]), rope_row};
  for_rows(&c, 2 * inputs[0].shape[2]);
}
