/* The conversions of stored types: ggml's against values that ggml's reference gave for the same bytes, MLX's against MLX itself. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "dequantize.h"
#include "mlx/c/mlx.h"
#include "number_formats.h"
#include "repack.h"

enum { NUM_BLOCKS = 2, MAX_BYTES = NUM_BLOCKS * 292, MAX_VALUES = NUM_BLOCKS * 256, NUM_SAMPLES = 6 };

/* Two blocks of pseudo-random bytes: `weighted_sum` adds up (index + 1) * value in float64, `samples` are the values at 0, 1, 17, the last
 * of the first block, the first of the second, and 21 behind it. Made with gguf 0.19's dequantize, Q8_K from the definition of its struct. */
typedef struct ggml_case {
  const char* type;
  int halves[2]; /* where a block's float16 scales are, -1 none */
  double weighted_sum;
  float samples[NUM_SAMPLES];
} ggml_case;

static const ggml_case cases[] = {
    {"Q4_0", {0, -1}, 5.22389221, {0.0235519409f, -0.0471038818f, 0.0157012939f, 0.0549545288f, -0.0867462158f, 0.0289154053f}},
    {"Q4_1", {0, 2}, -70.3706665, {0.0500259399f, 0.0814285278f, -0.00492858887f, 0.104980469f, -0.0908355713f, -0.137649536f}},
    {"Q5_0", {0, -1}, -25.084343, {0.109909058f, 0.0942077637f, -0.0628051758f, -0.0471038818f, 0.0869750977f, 0.0579833984f}},
    {"Q5_1", {0, 2}, 282.034195, {0.0500259399f, 0.0500259399f, 0.207038879f, 0.167785645f, 0.0652008057f, 0.11541748f}},
    {"Q8_0", {0, -1}, 286.069389, {-0.918525696f, -0.737960815f, -0.102058411f, 0.580947876f, -0.0384979248f, 1.09077454f}},
    {"Q2_K", {80, 82}, -7236.03096, {-0.0569534302f, -0.0569534302f, -0.0911254883f, 0.0186157227f, 0.0942687988f, -0.2866745f}},
    {"Q3_K", {108, -1}, -347.683632, {-0.183746338f, 0.183746338f, -0.352180481f, 0.367492676f, -0.77142334f, 1.12207031f}},
    {"Q4_K", {0, 2}, -130413.197, {1.87683105f, 1.87683105f, 3.44696045f, 2.24123383f, -3.26010132f, -2.05503845f}},
    {"Q5_K", {0, 2}, 461203.259, {6.90124512f, 8.15734863f, 3.13293457f, 6.01739502f, 7.10966492f, 7.10966492f}},
    {"Q6_K", {208, -1}, -129334.623, {-20.608429f, -19.6270752f, 34.3473816f, -9.49853516f, 10.7488174f, -14.8901367f}},
    {"IQ4_NL", {0, -1}, 24.8591766, {0.298324585f, -0.651603699f, 0.196266174f, 0.887123108f, -1.28673553f, 0.318069458f}},
    {"IQ4_XS", {0, -1}, -215123.884, {0.188415527f, 0.188415527f, 9.98602295f, 3.32867432f, 15.4690933f, -18.6077499f}},
    {"MXFP4", {-1, -1}, 230.625, {0.5f, -0.375f, 0, 1, 1.5f, 1.5f}},
    {"Q8_K", {-1, -1}, -4821.01887, {-0.187523007f, 0.218776837f, -0.679770887f, 0.289097965f, 0.352113366f, 0.438185513f}},
};

/* Scales are kept finite and of a usual size; everything else is any byte. */
static void fill_blocks(const ggml_case* c, int block_bytes, uint8_t* bytes) {
  uint32_t state = 12345;
  for (int i = 0; i < NUM_BLOCKS; i++, bytes += block_bytes) {
    for (int j = 0; j < block_bytes; j++) bytes[j] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
    for (int j = 0; j < 2; j++)
      if (c->halves[j] >= 0) bytes[c->halves[j] + 1] = (uint8_t)((bytes[c->halves[j] + 1] & 0x83) | 0x20);
    if (strcmp(c->type, "MXFP4") == 0) bytes[0] = (uint8_t)(120 + (bytes[0] & 7));
    if (strcmp(c->type, "Q8_K") == 0) bytes[2] = 0, bytes[3] = 0x3C;
  }
}

static void test_ggml_type(const ggml_case* c) {
  uint8_t bytes[MAX_BYTES];
  float values[MAX_VALUES], repacked[MAX_VALUES], scales[MAX_VALUES / 32], biases[MAX_VALUES / 32], largest = 0;
  uint32_t words[MAX_VALUES];
  const tensor_type* type = tensor_type_named(c->type);
  CHECK_VALUES(type != NULL, "%s", c->type);
  if (type == NULL) return;
  int num_values = NUM_BLOCKS * type->block_size;
  const int indices[NUM_SAMPLES] = {0, 1, 17, type->block_size - 1, type->block_size, type->block_size + 21};
  fill_blocks(c, type->block_bytes, bytes);
  type->to_float(bytes, values, NUM_BLOCKS);
  double sum = 0, size = 0;
  for (int i = 0; i < num_values; i++) {
    sum += (i + 1.0) * values[i];
    size += (i + 1.0) * fabsf(values[i]);
    largest = fmaxf(largest, fabsf(values[i]));
  }
  CHECK_VALUES(fabs(sum - c->weighted_sum) <= 1e-6 * size, "%s: weighted sum %.9g, expected %.9g", c->type, sum, c->weighted_sum);
  for (int i = 0; i < NUM_SAMPLES; i++)
    CHECK_VALUES(fabsf(values[indices[i]] - c->samples[i]) <= 1e-6f * largest, "%s: value %d is %.9g, expected %.9g", c->type, indices[i],
                 values[indices[i]], c->samples[i]);
  if (repack_bits(type) == 0) return;
  repack_row(type, bytes, words, scales, biases, (size_t)num_values);
  dequantize_affine((const uint8_t*)words, scales, biases, repack_bits(type), REPACK_GROUP_SIZE, repacked, (size_t)num_values);
  for (int i = 0; i < num_values; i++)
    CHECK_VALUES(fabsf(repacked[i] - values[i]) <= 1e-6f * largest, "%s repacked: value %d is %.9g, expected %.9g", c->type, i, repacked[i],
                 values[i]);
}

/* ---- MLX ---- */

enum { ROWS = 3, COLUMNS = 256 };

static mlx_array random_matrix(mlx_stream stream) {
  static float values[ROWS * COLUMNS];
  uint32_t state = 99;
  for (int i = 0; i < ROWS * COLUMNS; i++) values[i] = (float)((state = state * 1664525u + 1013904223u) >> 8) / (float)(1 << 22) - 2;
  (void)stream;
  return mlx_array_new_data(values, (const int[]){ROWS, COLUMNS}, 2, MLX_FLOAT32);
}

/* MLX quantizes the matrix; `mine` reads the packed arrays, and MLX's own dequantized matrix is what it has to give. */
static void test_mlx_format(const char* mode, int bits, int group_size) {
  mlx_stream stream = mlx_default_cpu_stream_new();
  mlx_optional_int some_bits = {bits, true}, some_group_size = {group_size, true};
  mlx_array matrix = random_matrix(stream), parts[3] = {mlx_array_new(), mlx_array_new(), mlx_array_empty}, theirs = mlx_array_new();
  mlx_vector_array quantized = mlx_vector_array_new();
  CHECK(mlx_quantize(&quantized, matrix, some_group_size, some_bits, mode, mlx_array_empty, stream) == 0);
  int num_parts = (int)mlx_vector_array_size(quantized);
  if (num_parts == 3) parts[2] = mlx_array_new();
  for (int i = 0; i < num_parts; i++) mlx_vector_array_get(&parts[i], quantized, (size_t)i);
  CHECK(mlx_dequantize(&theirs, parts[0], parts[1], parts[2], some_group_size, some_bits, mode, mlx_array_empty,
                       (mlx_optional_dtype){MLX_FLOAT32, true}, stream) == 0);
  mlx_vector_array_append_value(quantized, theirs);
  CHECK(mlx_eval(quantized) == 0);
  static float mine[ROWS * COLUMNS];
  const uint8_t* words = (const uint8_t*)mlx_array_data_uint32(parts[0]);
  if (num_parts == 3)
    dequantize_affine(words, mlx_array_data_float32(parts[1]), mlx_array_data_float32(parts[2]), bits, group_size, mine, ROWS * COLUMNS);
  else
    dequantize_mxfp4(words, mlx_array_data_uint8(parts[1]), mine, ROWS * COLUMNS);
  const float* expected = mlx_array_data_float32(theirs);
  float worst = 0;
  for (int i = 0; i < ROWS * COLUMNS; i++) worst = fmaxf(worst, fabsf(mine[i] - expected[i]));
  CHECK_VALUES(worst < 1e-6f, "%s, %d bits, groups of %d: off by %g", mode, bits, group_size, worst);
  mlx_array_free(matrix), mlx_array_free(theirs), mlx_array_free(parts[0]), mlx_array_free(parts[1]), mlx_array_free(parts[2]);
  mlx_vector_array_free(quantized);
  mlx_stream_free(stream);
}

static void test_number_formats(void) {
  CHECK(half_to_float(0x3C00) == 1 && half_to_float(0xC000) == -2 && half_to_float(1) == 0x1p-24f && isinf(half_to_float(0x7C00)));
  CHECK(float_to_half(1.0f / 3) == 0x3555 && float_to_half(65520) == 0x7C00 && float_to_half(0x1p-25f) == 0);
  CHECK(float_to_bfloat(1 + 0x1p-8f) == 0x3F80 && float_to_bfloat(1 + 3 * 0x1p-8f) == 0x3F82); /* ties to even */
  CHECK(isnan(bfloat_to_float(float_to_bfloat(NAN))) && isinf(bfloat_to_float(float_to_bfloat(INFINITY))));
  CHECK(e8m0_to_float(127) == 1 && e8m0_to_float(0) == 0x1p-127f && e8m0_to_float(130) == 8);
}

int main(void) {
  static const int bits[] = {2, 3, 4, 5, 6, 8}, group_sizes[] = {32, 64, 128};
  test_number_formats();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) test_ggml_type(&cases[i]);
  CHECK(tensor_type_named("Q4_2") == NULL);
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 3; j++) test_mlx_format("affine", bits[i], group_sizes[j]);
  test_mlx_format("mxfp4", 4, 32);
  return finish();
}
