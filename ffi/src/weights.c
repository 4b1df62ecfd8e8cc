#include "weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

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

/* Large buffers start on a 2 MB border and ask for huge pages: a step streams all weights, and page walks cost a tenth of it. */
static float* new_buffer(weights* w, uint64_t num_values) {
  void* buffer = NULL;
  uint64_t bytes = num_values * sizeof(float), alignment = bytes >= 1 << 21 ? 1 << 21 : 64;
  if (posix_memalign(&buffer, alignment, bytes) != 0) {
    weights_fail(w, "Cannot get %llu MB for weights", (unsigned long long)(bytes >> 20));
    return NULL;
  }
#ifdef MADV_HUGEPAGE
  if (alignment > 64) madvise(buffer, bytes, MADV_HUGEPAGE);
#endif
  w->num_bytes += bytes;
  return buffer;
}

/* Where the rows of one matrix come from. */
typedef struct matrix_source {
  const tensor *weight, *scales, *biases; /* scales and biases only when quantized by MLX */
  int bits, group_size;
  int columns;
} matrix_source;

static const tensor* require(weights* w, const char* name) {
  const tensor* t = tensors_find(w->tensors, name);
  if (t == NULL) weights_fail(w, "The checkpoint has no tensor %s", name);
  return t;
}

static void read_quantization(weights* w, const char* module, matrix_source* source) {
  char key[160];
  snprintf(key, sizeof key, "quant.%s", module);
  const char* own = config_text(w->config, key);
  if (sscanf(own, "%d,%d", &source->bits, &source->group_size) == 2) return;
  source->bits = config_int(w->config, "quant_bits", 0, 8);
  source->group_size = config_int(w->config, "quant_group_size", 0, 1024);
}

static bool has_shape(const tensor* t, int64_t rows, int64_t columns) {
  return t->num_dims == 2 && t->shape[0] == rows && t->shape[1] == columns;
}

static matrix_source find_matrix(weights* w, const char* module, int rows, int columns) {
  char name[160];
  matrix_source source = {.columns = columns};
  snprintf(name, sizeof name, "%s.weight", module);
  source.weight = require(w, name);
  if (source.weight == NULL) return source;
  if (source.weight->type->to_float != NULL) {
    if (!has_shape(source.weight, rows, columns))
      weights_fail(w, "Tensor %s is [%lld, %lld], expected [%d, %d]", name, (long long)source.weight->shape[0],
                   (long long)(source.weight->num_dims > 1 ? source.weight->shape[1] : 1), rows, columns);
    return source;
  }
  read_quantization(w, module, &source);
  if (source.bits < 2 || source.group_size < 8 || columns % source.group_size != 0) {
    weights_fail(w, "Tensor %s is quantized to %d bits in groups of %d, which does not fit %d columns", name, source.bits, source.group_size,
                 columns);
    return source;
  }
  snprintf(name, sizeof name, "%s.scales", module);
  source.scales = require(w, name);
  snprintf(name, sizeof name, "%s.biases", module);
  source.biases = require(w, name);
  if (w->status != RL_OK) return source;
  int num_groups = columns / source.group_size;
  if (!has_shape(source.weight, rows, (int64_t)columns * source.bits / 32) || !has_shape(source.scales, rows, num_groups) ||
      !has_shape(source.biases, rows, num_groups))
    weights_fail(w, "The quantized tensors of %s do not fit [%d, %d] at %d bits in groups of %d", module, rows, columns, source.bits,
                 source.group_size);
  return source;
}

static const uint8_t* row_data(const tensor* t, int64_t row) {
  return t->data + (t->num_bytes / (uint64_t)t->shape[0]) * (uint64_t)row;
}

static void read_row(const matrix_source* source, int64_t row, float* values) {
  const tensor* t = source->weight;
  if (source->scales == NULL) {
    t->type->to_float(row_data(t, row), values, (size_t)(source->columns / t->type->block_size));
    return;
  }
  int num_groups = source->columns / source->group_size;
  float scales[num_groups], biases[num_groups];
  source->scales->type->to_float(row_data(source->scales, row), scales, (size_t)num_groups);
  source->biases->type->to_float(row_data(source->biases, row), biases, (size_t)num_groups);
  dequantize_affine(row_data(t, row), scales, biases, source->bits, source->group_size, values, (size_t)source->columns);
}

/* GGUF's llama family stores a head's rows as (0, D/2, 1, D/2 + 1, …): where row `row` of the checkpoint's own order lies. */
static int64_t stored_row(int64_t row, int head_dim) {
  if (head_dim == 0) return row;
  int64_t head = row / head_dim, index = row % head_dim, half = head_dim / 2;
  return head * head_dim + (index < half ? 2 * index : 2 * (index - half) + 1);
}

static mlx_array own_array(float* buffer, const int* shape, int num_dims) {
  return mlx_array_new_data_managed(buffer, shape, num_dims, MLX_FLOAT32, free);
}

mlx_array weights_vector(weights* w, const char* name, int size) {
  const tensor* t = w->status == RL_OK ? require(w, name) : NULL;
  if (t == NULL) return mlx_array_empty;
  if (t->num_dims != 1 || t->shape[0] != size || t->type->to_float == NULL) {
    weights_fail(w, "Tensor %s has %lld values of type %s, expected %d", name, (long long)t->shape[0], t->type->name, size);
    return mlx_array_empty;
  }
  float* buffer = new_buffer(w, (uint64_t)size);
  if (buffer == NULL) return mlx_array_empty;
  t->type->to_float(t->data, buffer, (size_t)(size / t->type->block_size));
  return own_array(buffer, &size, 1);
}

mlx_array weights_matrix(weights* w, const char* module, int rows, int columns) {
  projection part = {.rows = rows};
  snprintf(part.module, sizeof part.module, "%s", module);
  linear l = weights_linear(w, &part, 1, columns, false);
  array_free(&l.weight_t);
  return l.weight;
}

static mlx_array read_bias(weights* w, const projection* parts, int num_parts, int num_rows) {
  float* buffer = new_buffer(w, (uint64_t)num_rows);
  float* row = buffer;
  for (int i = 0; i < num_parts && buffer != NULL && w->status == RL_OK; i++) {
    char name[160];
    snprintf(name, sizeof name, "%s.bias", parts[i].module);
    const tensor* t = require(w, name);
    if (t == NULL) break;
    if (t->num_dims != 1 || t->shape[0] != parts[i].rows || t->type->to_float == NULL || t->type->block_size != 1) {
      weights_fail(w, "Tensor %s has %lld values, expected %d", name, (long long)t->shape[0], parts[i].rows);
      break;
    }
    for (int64_t r = 0; r < parts[i].rows; r++, row++)
      t->type->to_float(t->data + stored_row(r, parts[i].head_dim) * t->type->block_bytes, row, 1);
  }
  if (w->status == RL_OK) return own_array(buffer, &num_rows, 1);
  free(buffer);
  return mlx_array_empty;
}

linear weights_linear(weights* w, const projection* parts, int num_parts, int columns, bool has_bias) {
  linear l = {0};
  matrix_source sources[PROJECTION_MAX_PARTS];
  int num_rows = 0;
  for (int i = 0; i < num_parts && w->status == RL_OK; i++) {
    sources[i] = find_matrix(w, parts[i].module, parts[i].rows, columns);
    num_rows += parts[i].rows;
  }
  float* buffer = w->status == RL_OK ? new_buffer(w, (uint64_t)num_rows * (uint64_t)columns) : NULL;
  if (buffer == NULL) return l;
  float* row = buffer;
  for (int i = 0; i < num_parts; i++)
    for (int64_t r = 0; r < parts[i].rows; r++, row += columns) read_row(&sources[i], stored_row(r, parts[i].head_dim), row);
  mlx_array weight = own_array(buffer, (const int[]){num_rows, columns}, 2);
  l = linear_of(weight);
  mlx_array_free(weight);
  if (has_bias) l.bias = read_bias(w, parts, num_parts, num_rows);
  return l;
}

linear linear_of(mlx_array weight) {
  linear l = {.weight = mlx_array_new(), .weight_t = mlx_array_new()};
  mlx_array_set(&l.weight, weight);
  mlx_stream cpu = mlx_default_cpu_stream_new();
  mlx_transpose(&l.weight_t, weight, cpu);
  mlx_stream_free(cpu);
  return l;
}

void array_free(mlx_array* array) {
  if (array->ctx != NULL) mlx_array_free(*array);
  *array = mlx_array_empty;
}

void linear_free(linear* l) {
  array_free(&l->weight);
  array_free(&l->weight_t);
  array_free(&l->bias);
}
