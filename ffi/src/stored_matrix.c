#include "stored_matrix.h"

#include <stdio.h>
#include <string.h>

#include "number_formats.h"
#include "repack.h"

static const tensor* require(weights* w, const char* module, const char* part) {
  char name[192];
  snprintf(name, sizeof name, "%s.%s", module, part);
  const tensor* t = tensors_find(w->tensors, name);
  if (t == NULL) weights_fail(w, "The checkpoint has no tensor %s", name);
  return t;
}

/* [stack, rows, columns], or [rows, columns] for stack 0. */
static bool has_shape(const tensor* t, int64_t stack, int64_t rows, int64_t columns) {
  const int64_t* sizes = t->shape + (stack > 0);
  return t->num_dims == 2 + (stack > 0) && (stack == 0 || t->shape[0] == stack) && sizes[0] == rows && sizes[1] == columns;
}

static void fail_shape(weights* w, const tensor* t, int stack, int rows, int columns) {
  char found[96] = "", expected[48];
  for (int i = 0; i < t->num_dims; i++)
    snprintf(found + strlen(found), sizeof found - strlen(found), i == 0 ? "%lld" : ", %lld", (long long)t->shape[i]);
  if (stack > 0) snprintf(expected, sizeof expected, "%d, %d, %d", stack, rows, columns);
  else snprintf(expected, sizeof expected, "%d, %d", rows, columns);
  weights_fail(w, "Tensor %s is [%s], expected [%s]", t->name, found, expected);
}

/* The bits and group size of a module: its own, or the checkpoint's. */
static void read_quantization(weights* w, const char* module, stored_matrix* m) {
  char key[160];
  snprintf(key, sizeof key, "quant.%s", module);
  if (sscanf(config_text(w->config, key), "%d,%d", &m->bits, &m->group_size) == 2) return;
  m->bits = config_int(w->config, "quant_bits", 0, 8);
  m->group_size = config_int(w->config, "quant_group_size", 0, 1024);
}

static bool is_mxfp4(const stored_matrix* m) { return m->scales != NULL && strcmp(m->scales->type->name, "U8") == 0; }

static bool can_be_quantized(const stored_matrix* m) {
  bool has_bits = (m->bits >= 2 && m->bits <= 6) || m->bits == 8;
  bool has_groups = m->group_size >= 8 && m->group_size % 8 == 0 && m->columns % m->group_size == 0;
  return has_bits && has_groups && m->columns * (int64_t)m->bits % 32 == 0;
}

static void find_quantized(weights* w, const char* module, int stack, int rows, stored_matrix* m) {
  read_quantization(w, module, m);
  if (!can_be_quantized(m)) {
    weights_fail(w, "Tensor %s is quantized to %d bits in groups of %d, which does not fit %d columns", m->values->name, m->bits,
                 m->group_size, m->columns);
    return;
  }
  m->scales = require(w, module, "scales");
  if (m->scales == NULL) return;
  if (is_mxfp4(m)) {
    if (m->bits != 4 || m->group_size != 32)
      weights_fail(w, "%s has 8-bit scales, %d bits and groups of %d; the only such format here is mxfp4 with 4 and 32", module,
                   m->bits, m->group_size);
  } else {
    m->biases = require(w, module, "biases");
    if (m->biases == NULL) return;
  }
  int groups = m->columns / m->group_size;
  if (m->values->type->block_bytes != 4 || !has_shape(m->values, stack, rows, (int64_t)m->columns * m->bits / 32) ||
      !has_shape(m->scales, stack, rows, groups) || (m->biases != NULL && !has_shape(m->biases, stack, rows, groups)))
    weights_fail(w, "The quantized tensors of %s do not fit [%d, %d] at %d bits in groups of %d", module, rows, m->columns, m->bits,
                 m->group_size);
  bool has_floats = is_mxfp4(m) || (m->scales->type->block_size == 1 && m->scales->type->to_float != NULL &&
                                    m->biases->type->block_size == 1 && m->biases->type->to_float != NULL);
  if (!has_floats)
    weights_fail(w, "The scales and biases of %s are %s and %s, expected a float type", module, m->scales->type->name,
                 m->biases->type->name);
}

stored_matrix stored_matrix_find(weights* w, const char* module, int stack, int rows, int columns) {
  stored_matrix m = {.num_rows = (int64_t)(stack > 0 ? stack : 1) * rows, .columns = columns};
  m.values = w->status == RL_OK ? require(w, module, "weight") : NULL;
  if (m.values == NULL) return m;
  if (columns > STORED_MATRIX_MAX_COLUMNS)
    weights_fail(w, "%s has %d columns, at most %d are supported", module, columns, STORED_MATRIX_MAX_COLUMNS);
  else if (m.values->type->to_float == NULL) find_quantized(w, module, stack, rows, &m);
  else if (!has_shape(m.values, stack, rows, columns)) fail_shape(w, m.values, stack, rows, columns);
  return m;
}

/* MLX's products know these group sizes. */
static bool can_multiply(int group_size) { return group_size == 32 || group_size == 64 || group_size == 128; }

/* Floats one by one, in no format of blocks or groups. */
static bool is_dense(const stored_matrix* m) { return m->scales == NULL && m->values->type->block_size == 1; }

/* The blocks that hold the matrix without a change of any value, or as closely as `dense_bits` asks for; BLOCKS_NONE: there are none. */
static block_kind kind_of_blocks(const stored_matrix* m, int dense_bits) {
  if (is_dense(m) && m->columns % BLOCK_VALUES == 0) return dense_bits == 4 ? BLOCKS_4 : dense_bits == 8 ? BLOCKS_8 : BLOCKS_NONE;
  if (m->scales == NULL) return repack_kind(m->values->type);
  if (is_mxfp4(m)) return BLOCKS_8;
  if (m->columns % BLOCK_VALUES != 0) return BLOCKS_NONE;
  if (m->group_size % BLOCK_VALUES == 0) return m->bits <= 4 ? BLOCKS_4 : BLOCKS_8;
  return m->group_size == BLOCK_VALUES / 2 ? BLOCKS_8_HALVES : BLOCKS_NONE;
}

static mlx_dtype dense_dtype(const weights* w, const stored_matrix* m) {
  const char* type = m->values->type->name;
  if (!w->keeps_stored || m->scales != NULL) return w->dtype;
  return strcmp(type, "F32") == 0 ? MLX_FLOAT32 : strcmp(type, "BF16") == 0 ? MLX_BFLOAT16 : MLX_FLOAT16;
}

matrix_format stored_matrix_format(const weights* w, const stored_matrix* m) {
  int repacked_bits = repack_bits(m->values->type);
  block_kind blocks = w->uses_host_ops && w->keeps_stored ? kind_of_blocks(m, w->dense_bits) : BLOCKS_NONE;
  if (blocks != BLOCKS_NONE) return (matrix_format){.dtype = w->dtype, .blocks = blocks};
  if (w->uses_host_ops) return (matrix_format){.dtype = dense_dtype(w, m)};
  if (w->keeps_stored && m->scales != NULL && can_multiply(m->group_size))
    return (matrix_format){.bits = m->bits, .group_size = m->group_size, .is_mxfp4 = is_mxfp4(m), .dtype = w->dtype};
  if (w->keeps_stored && repacked_bits > 0) return (matrix_format){.bits = repacked_bits, .group_size = REPACK_GROUP_SIZE, .dtype = w->dtype};
  return (matrix_format){.dtype = dense_dtype(w, m)};
}

void write_floats(const float* values, size_t count, mlx_dtype dtype, void* out) {
  uint16_t* halves = out;
  if (dtype == MLX_FLOAT32) memcpy(out, values, count * sizeof *values);
  else if (dtype == MLX_FLOAT16)
    for (size_t i = 0; i < count; i++) halves[i] = float_to_half(values[i]);
  else
    for (size_t i = 0; i < count; i++) halves[i] = float_to_bfloat(values[i]);
}

static const uint8_t* row_data(const tensor* t, const stored_matrix* m, int64_t row) {
  return t->data + t->num_bytes / (uint64_t)m->num_rows * (uint64_t)row;
}

/* Row `row` as numbers. */
static void row_floats(const stored_matrix* m, int64_t row, float* values) {
  const uint8_t* data = row_data(m->values, m, row);
  if (m->scales == NULL) {
    m->values->type->to_float(data, values, (size_t)(m->columns / m->values->type->block_size));
  } else if (is_mxfp4(m)) {
    dequantize_mxfp4(data, row_data(m->scales, m, row), values, (size_t)m->columns);
  } else {
    int num_groups = m->columns / m->group_size;
    float scales[num_groups], biases[num_groups];
    m->scales->type->to_float(row_data(m->scales, m, row), scales, (size_t)num_groups);
    m->biases->type->to_float(row_data(m->biases, m, row), biases, (size_t)num_groups);
    dequantize_affine(data, scales, biases, m->bits, m->group_size, values, (size_t)m->columns);
  }
}

void stored_matrix_dense(const stored_matrix* m, int64_t row, mlx_dtype dtype, void* values) {
  const char* stored = dtype == MLX_FLOAT16 ? "F16" : dtype == MLX_BFLOAT16 ? "BF16" : NULL;
  if (dtype == MLX_FLOAT32) {
    row_floats(m, row, values);
  } else if (strcmp(stored, m->values->type->name) == 0) {
    memcpy(values, row_data(m->values, m, row), (size_t)m->columns * 2);
  } else {
    float floats[m->columns];
    row_floats(m, row, floats);
    write_floats(floats, (size_t)m->columns, dtype, values);
  }
}

void stored_matrix_packed(const stored_matrix* m, int64_t row, const matrix_format* format, void* words, void* scales, void* biases) {
  size_t num_groups = (size_t)(m->columns / format->group_size);
  const uint8_t* data = row_data(m->values, m, row);
  if (m->scales != NULL) memcpy(words, data, (size_t)m->columns * (size_t)format->bits / 8);
  if (format->is_mxfp4) {
    memcpy(scales, row_data(m->scales, m, row), num_groups);
    return;
  }
  float floats[2 * num_groups];
  if (m->scales == NULL) {
    repack_row(m->values->type, data, words, floats, floats + num_groups, (size_t)m->columns);
  } else {
    m->scales->type->to_float(row_data(m->scales, m, row), floats, num_groups);
    m->biases->type->to_float(row_data(m->biases, m, row), floats + num_groups, num_groups);
  }
  write_floats(floats, num_groups, format->dtype, scales);
  write_floats(floats + num_groups, num_groups, format->dtype, biases);
}

/* 32 values of MLX's affine quantization, from `first` on. */
static void read_affine(const stored_matrix* m, const uint8_t* words, const float* scales, const float* biases, int first, value_group* g) {
  for (int i = 0; i < BLOCK_VALUES; i++) g->values[i] = affine_integer(words, m->bits, (size_t)(first + i));
  for (int half = 0; half < 2; half++) {
    int index = (first + half * BLOCK_VALUES / 2) / m->group_size;
    g->scales[half] = scales[index], g->biases[half] = biases[index];
  }
}

/* The same of mxfp4: twice a 4-bit float is an integer from -12 to 12. */
static void read_mxfp4(const uint8_t* words, const uint8_t* scales, int first, value_group* g) {
  float scale = e8m0_to_float(scales[first / BLOCK_VALUES]) / 2;
  for (int i = 0; i < BLOCK_VALUES; i++) g->values[i] = (uint8_t)(2 * fp4_to_float(words[(first + i) / 2] >> (i % 2 * 4)) + 12);
  for (int half = 0; half < 2; half++) g->scales[half] = scale, g->biases[half] = -12 * scale;
}

static void quantize_row(const stored_matrix* m, int64_t row, block_kind kind, uint8_t* blocks) {
  float values[m->columns];
  row_floats(m, row, values);
  for (int first = 0; first < m->columns; first += BLOCK_VALUES, blocks += block_bytes(kind)) {
    value_group g;
    block_quantize(values + first, kind == BLOCKS_4 ? 4 : 8, &g);
    block_write(kind, &g, blocks);
  }
}

void stored_matrix_blocks(const stored_matrix* m, int64_t row, block_kind kind, uint8_t* blocks) {
  const uint8_t* data = row_data(m->values, m, row);
  if (is_dense(m)) return quantize_row(m, row, kind, blocks);
  if (m->scales == NULL) return repack_row_blocks(m->values->type, data, blocks, (size_t)m->columns);
  const uint8_t* stored_scales = row_data(m->scales, m, row);
  size_t num_groups = (size_t)(m->columns / m->group_size);
  float scales[num_groups], biases[num_groups];
  if (!is_mxfp4(m)) {
    m->scales->type->to_float(stored_scales, scales, num_groups);
    m->biases->type->to_float(row_data(m->biases, m, row), biases, num_groups);
  }
  for (int first = 0; first < m->columns; first += BLOCK_VALUES, blocks += block_bytes(kind)) {
    value_group g;
    if (is_mxfp4(m)) read_mxfp4(data, stored_scales, first, &g);
    else read_affine(m, data, scales, biases, first, &g);
    block_write(kind, &g, blocks);
  }
}
