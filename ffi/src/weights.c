#include "weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "array_memory.h"
#include "stored_matrix.h"

void weights_fail(weights* w, const char* format, ...) {
  if (w->status != RL_OK) return;
  char text[900];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  w->status = rl_fail(RL_ERR_MODEL, "%s", text);
}

bool weights_has(const weights* w, const char* name) { return tensors_find(w->tensors, name) != NULL; }

/* An array to be filled, and where it lies; ctx NULL after an error. */
static mlx_array new_array(weights* w, const int* shape, int num_dims, mlx_dtype dtype, uint8_t** data) {
  uint64_t bytes = mlx_dtype_size(dtype);
  for (int i = 0; i < num_dims; i++) bytes *= (uint64_t)shape[i];
  if (w->status != RL_OK) return mlx_array_empty;
  mlx_array array = array_uninitialized(shape, num_dims, dtype, data);
  if (array.ctx == NULL) weights_fail(w, "Cannot get %llu MB for weights", (unsigned long long)(bytes >> 20));
  else w->num_bytes += bytes;
  return array;
}

/* GGUF's llama family stores a head's rows as (0, D/2, 1, D/2 + 1, …): where row `row` of the checkpoint's own order lies. */
static int64_t stored_row(int64_t row, int head_dim) {
  if (head_dim == 0) return row;
  int64_t head = row / head_dim, index = row % head_dim, half = head_dim / 2;
  return head * head_dim + (index < half ? 2 * index : 2 * (index - half) + 1);
}

/* ---- vectors ---- */

/* All of a vector tensor as float32; false after an error. */
static bool read_vector(weights* w, const char* name, int size, int head_dim, float* values) {
  const tensor* t = w->status == RL_OK ? tensors_find(w->tensors, name) : NULL;
  if (t == NULL) return weights_fail(w, "The checkpoint has no tensor %s", name), false;
  if (t->num_dims != 1 || t->shape[0] != size || t->type->to_float == NULL || t->type->block_size != 1)
    return weights_fail(w, "Tensor %s has %lld values of type %s, expected %d of a float type", name, (long long)t->shape[0],
                        t->type->name, size), false;
  for (int64_t i = 0; i < size; i++) t->type->to_float(t->data + stored_row(i, head_dim) * t->type->block_bytes, values + i, 1);
  return true;
}

/* float32 values of the caller as an array of the weights' type. */
static mlx_array vector_array(weights* w, const float* values, int size) {
  uint8_t* data = NULL;
  mlx_array array = new_array(w, &size, 1, w->dtype, &data);
  if (array.ctx != NULL) write_floats(values, (size_t)size, w->dtype, data);
  return array;
}

mlx_array weights_norm(weights* w, const char* name, int size, float offset) {
  float* values = malloc((size_t)size * sizeof *values);
  mlx_array array = mlx_array_empty;
  if (values == NULL) weights_fail(w, "Out of memory for %s", name);
  if (values != NULL && read_vector(w, name, size, 0, values)) {
    for (int i = 0; i < size; i++) values[i] += offset;
    array = vector_array(w, values, size);
  }
  free(values);
  return array;
}

static mlx_array read_bias(weights* w, const projection* parts, int num_parts, int num_rows) {
  float* values = malloc((size_t)num_rows * sizeof *values);
  mlx_array array = mlx_array_empty;
  if (values == NULL) weights_fail(w, "Out of memory for biases");
  float* next = values;
  for (int i = 0; i < num_parts && w->status == RL_OK; next += parts[i++].rows) {
    char name[160];
    snprintf(name, sizeof name, "%s.bias", parts[i].module);
    read_vector(w, name, parts[i].rows, parts[i].head_dim, next);
  }
  if (w->status == RL_OK) array = vector_array(w, values, num_rows);
  free(values);
  return array;
}

/* ---- matrices ---- */

/* What one matrix in memory is made of: for every expert, the rows of every part, in this order. */
typedef struct matrix_plan {
  const stored_matrix* sources; /* [experts][parts], or [parts] where a source holds all experts */
  const projection* parts;
  int num_parts;
  int sources_stride; /* sources from one expert to the next, 0 when they are stacked */
  int num_experts;    /* 0: no experts' axis */
  int columns;
} matrix_plan;

static int plan_rows(const matrix_plan* p) {
  int rows = 0;
  for (int i = 0; i < p->num_parts; i++) rows += p->parts[i].rows;
  return rows;
}

/* Where the planned arrays are written, row after row. */
typedef struct matrix_buffers {
  uint8_t *values, *scales, *biases;
  size_t value_bytes, scale_bytes; /* of one row */
} matrix_buffers;

/* What was read of a file is given back in steps of so many bytes: a load takes little more than the weights. */
enum { RELEASE_BYTES = 32 << 20 };

static uint64_t row_bytes(const stored_matrix* m, const tensor* t) { return t->num_bytes / (uint64_t)m->num_rows; }

static void release_rows(const stored_matrix* m, int64_t from, int64_t to) {
  const tensor* tensors[] = {m->values, m->scales, m->biases};
  for (int i = 0; i < 3; i++)
    if (tensors[i] != NULL) tensor_release(tensors[i], row_bytes(m, tensors[i]) * (uint64_t)from, row_bytes(m, tensors[i]) * (uint64_t)to);
}

/* Writes the rows of one part, which are those of `source` from `first` on, and moves `b` behind them. */
static void fill_part(const stored_matrix* source, int64_t first, const projection* part, const matrix_format* format, matrix_buffers* b) {
  int64_t end = first + part->rows, released = first;
  for (int64_t next = first + 1; next <= end; next++) {
    int64_t row = first + stored_row(next - 1 - first, part->head_dim);
    if (format->blocks != BLOCKS_NONE) stored_matrix_blocks(source, row, format->blocks, b->values);
    else if (format->bits == 0) stored_matrix_dense(source, row, format->dtype, b->values);
    else stored_matrix_packed(source, row, format, b->values, b->scales, b->biases);
    b->values += b->value_bytes, b->scales += b->scale_bytes, b->biases += b->scale_bytes;
    if (next < end && (uint64_t)(next - released) * row_bytes(source, source->values) < RELEASE_BYTES) continue;
    release_rows(source, released, next);
    released = next;
  }
}

static void fill(const matrix_plan* p, const matrix_format* format, matrix_buffers b) {
  for (int64_t expert = 0; expert < (p->num_experts > 0 ? p->num_experts : 1); expert++)
    for (int i = 0; i < p->num_parts; i++) {
      int64_t first = p->sources_stride == 0 ? expert * p->parts[i].rows : 0;
      fill_part(&p->sources[expert * p->sources_stride + i], first, &p->parts[i], format, &b);
    }
}

/* Rows of `width` elements for all that is planned, and where they lie. */
static mlx_array new_rows(weights* w, const matrix_plan* p, int width, mlx_dtype dtype, uint8_t** data) {
  int shape[] = {p->num_experts, plan_rows(p), width}, skipped = p->num_experts == 0;
  return new_array(w, shape + skipped, 3 - skipped, dtype, data);
}

static matrix load_blocks(weights* w, const matrix_plan* p, matrix_format format) {
  matrix m = {.format = format, .columns = p->columns};
  matrix_buffers b = {.value_bytes = (size_t)p->columns / BLOCK_VALUES * block_bytes(format.blocks)};
  m.values = new_rows(w, p, (int)b.value_bytes, MLX_UINT8, &b.values);
  if (w->status == RL_OK) fill(p, &format, b);
  return m;
}

static matrix load_matrix(weights* w, const matrix_plan* p, matrix_format format) {
  if (format.blocks != BLOCKS_NONE) return load_blocks(w, p, format);
  matrix m = {.format = format, .columns = p->columns};
  int width = format.bits == 0 ? p->columns : (int)((int64_t)p->columns * format.bits / 32);
  int num_groups = format.bits == 0 ? 0 : p->columns / format.group_size;
  matrix_buffers b = {.value_bytes = (size_t)width * (format.bits == 0 ? mlx_dtype_size(format.dtype) : 4),
                      .scale_bytes = (size_t)num_groups * (format.is_mxfp4 ? 1 : mlx_dtype_size(format.dtype))};
  m.values = new_rows(w, p, width, format.bits == 0 ? format.dtype : MLX_UINT32, &b.values);
  if (format.bits > 0) m.scales = new_rows(w, p, num_groups, format.is_mxfp4 ? MLX_UINT8 : format.dtype, &b.scales);
  if (format.bits > 0 && !format.is_mxfp4) m.biases = new_rows(w, p, num_groups, format.dtype, &b.biases);
  if (w->status != RL_OK) return m;
  fill(p, &format, b);
  if (format.bits == 0) m.transposed = transposed_view(m.values);
  return m;
}

static bool same_format(matrix_format a, matrix_format b) {
  return a.bits == b.bits && a.group_size == b.group_size && a.is_mxfp4 == b.is_mxfp4 && a.dtype == b.dtype && a.blocks == b.blocks;
}

/* The format that all experts of a part share. */
static matrix_format part_format(weights* w, const matrix_plan* p, int part) {
  matrix_format format = stored_matrix_format(w, &p->sources[part]);
  for (int i = 1; p->sources_stride > 0 && i < p->num_experts; i++) {
    const stored_matrix* source = &p->sources[i * p->sources_stride + part];
    if (!same_format(format, stored_matrix_format(w, source)))
      weights_fail(w, "Tensor %s is stored in another format than those of the other experts", source->values->name);
  }
  return format;
}

/* One matrix for each sequence of parts whose formats agree. */
static linear load_parts(weights* w, const matrix_plan* p) {
  linear l = {0};
  matrix_format formats[PROJECTION_MAX_PARTS];
  for (int i = 0; i < p->num_parts && w->status == RL_OK; i++) formats[i] = part_format(w, p, i);
  for (int first = 0, end; first < p->num_parts && w->status == RL_OK; first = end) {
    for (end = first + 1; end < p->num_parts && same_format(formats[first], formats[end]);) end++;
    matrix_plan part = *p;
    part.sources += first, part.parts += first, part.num_parts = end - first;
    l.parts[l.num_parts++] = load_matrix(w, &part, formats[first]);
  }
  return l;
}

projection projection_of(const char* module, const char* name, int rows) {
  projection p = {.rows = rows};
  snprintf(p.module, sizeof p.module, "%s.%s", module, name);
  return p;
}

linear weights_linear(weights* w, const projection* parts, int num_parts, int columns, bool has_bias) {
  stored_matrix sources[PROJECTION_MAX_PARTS];
  matrix_plan plan = {.sources = sources, .parts = parts, .num_parts = num_parts, .columns = columns};
  for (int i = 0; i < num_parts; i++) sources[i] = stored_matrix_find(w, parts[i].module, 0, parts[i].rows, columns);
  linear l = load_parts(w, &plan);
  if (has_bias && w->status == RL_OK) l.bias = read_bias(w, parts, num_parts, plan_rows(&plan));
  return l;
}

linear weights_experts(weights* w, const char* module, const projection* parts, int num_parts, int num_experts, int columns) {
  char name[160];
  snprintf(name, sizeof name, "%s.switch_mlp.%s.weight", module, parts[0].module);
  bool is_stacked = weights_has(w, name);
  size_t num_sources = (size_t)num_parts * (size_t)(is_stacked ? 1 : num_experts);
  stored_matrix* sources = calloc(num_sources, sizeof *sources);
  if (sources == NULL) return weights_fail(w, "Out of memory for %d experts", num_experts), (linear){0};
  for (size_t i = 0; i < num_sources && w->status == RL_OK; i++) {
    int part = (int)(i % (size_t)num_parts), expert = (int)(i / (size_t)num_parts);
    if (is_stacked) snprintf(name, sizeof name, "%s.switch_mlp.%s", module, parts[part].module);
    else snprintf(name, sizeof name, "%s.experts.%d.%s", module, expert, parts[part].module);
    sources[i] = stored_matrix_find(w, name, is_stacked ? num_experts : 0, parts[part].rows, columns);
  }
  matrix_plan plan = {.sources = sources, .parts = parts, .num_parts = num_parts, .sources_stride = is_stacked ? 0 : num_parts,
                      .num_experts = num_experts, .columns = columns};
  linear l = load_parts(w, &plan);
  free(sources);
  return l;
}

embedding weights_embedding(weights* w, const char* module, int rows, int columns) {
  projection part = {.rows = rows};
  snprintf(part.module, sizeof part.module, "%s", module);
  return (embedding){.table = weights_linear(w, &part, 1, columns, false).parts[0], .dtype = w->dtype};
}
