#include <stdlib.h>
#include <string.h>

#include "ops.h"
#include "output_internal.h"

struct rl_output {
  mlx_array logits; /* [rows, vocabulary] of any float type; ctx NULL when there are none */
  mlx_array floats; /* the same as float32, row-contiguous; made when first read */
  mlx_array draws; /* stream_draws as int32 [rows * DRAW_WORDS]; ctx NULL when none were started */
  mlx_array features; /* [tokens, width], for drafters; ctx NULL when there are none */
  const void* features_maker;
};

static void forget(mlx_array* array) {
  if (array->ctx != NULL) mlx_array_free(*array);
  *array = mlx_array_empty;
}

void output_set(rl_output* output, mlx_array logits, bool is_valid) {
  forget(&output->floats);
  forget(&output->logits);
  forget(&output->draws);
  forget(&output->features);
  if (is_valid) output->logits = logits;
  else if (logits.ctx != NULL) mlx_array_free(logits);
}

void output_set_features(rl_output* output, mlx_array features, bool is_valid, const void* maker) {
  forget(&output->features);
  output->features_maker = maker;
  if (is_valid) output->features = features;
  else if (features.ctx != NULL) mlx_array_free(features);
}

mlx_array output_features(const rl_output* output, const void** maker) {
  *maker = output->features_maker;
  return output->features;
}

int32_t rl_output_new(rl_output** out) {
  if (out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_output_new: out must not be NULL");
  install_mlx_error_handler();
  *out = calloc(1, sizeof **out);
  return *out != NULL ? RL_OK : rl_fail(RL_ERR_MEMORY, "Out of memory for an output");
}

int32_t rl_output_free(rl_output* output) {
  if (output == NULL) return RL_OK;
  output_set(output, mlx_array_empty, true);
  free(output);
  return RL_OK;
}

int32_t rl_output_clear(rl_output* output) {
  if (output == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_output_clear: output must not be NULL");
  output_set(output, mlx_array_empty, true);
  return RL_OK;
}

/* The scope's array, launched or evaluated, as the caller's own. */
static int32_t hand_out(scope* s, mlx_array array, bool waits, mlx_array* out) {
  mlx_array own = scope_release(s, array);
  mlx_stream_free(s->stream);
  scope_close(s);
  mlx_vector_array root = mlx_vector_array_new_value(own);
  if (s->status == RL_OK) scope_check(s, waits ? mlx_array_eval(own) : mlx_async_eval(root));
  mlx_vector_array_free(root);
  if (s->status == RL_OK) *out = own;
  else mlx_array_free(own);
  return s->status;
}

/* A float32 copy in memory order, evaluated. */
static int32_t make_floats(mlx_array values, mlx_array* out) {
  scope s = scope_open(mlx_default_cpu_stream_new());
  return hand_out(&s, op_copy(&s, op_cast(&s, values, MLX_FLOAT32)), true, out);
}

int32_t output_logits(rl_output* output, const float** logits, int32_t* rows, int32_t* vocabulary) {
  if (output == NULL) return rl_fail(RL_ERR_ARGUMENT, "output must not be NULL");
  if (output->logits.ctx == NULL) return rl_fail(RL_ERR_ARGUMENT, "The output holds no logits: the last forward failed or asked for none");
  int32_t status = output->floats.ctx == NULL ? make_floats(output->logits, &output->floats) : RL_OK;
  if (status != RL_OK) return status;
  *logits = mlx_array_data_float32(output->floats);
  *rows = mlx_array_dim(output->floats, 0);
  *vocabulary = mlx_array_dim(output->floats, 1);
  return RL_OK;
}

int32_t output_vocabulary(const rl_output* output) {
  return output != NULL && output->logits.ctx != NULL ? mlx_array_dim(output->logits, 1) : 0;
}

enum { DRAW_WORDS = 1 + sizeof(rl_sampled) / sizeof(int32_t) + 2 * RL_TOP_LOGPROBS_MAX };

stream_draws draws_at(void* memory, int32_t num_rows) {
  stream_draws d = {.tokens = memory};
  d.sampled = (rl_sampled*)(d.tokens + num_rows);
  d.top_tokens = (int32_t*)(d.sampled + num_rows);
  d.top_logprobs = (float*)(d.top_tokens + num_rows * RL_TOP_LOGPROBS_MAX);
  return d;
}

int32_t output_start_draws(rl_output* output, host_kernel kernel, const void* params, size_t params_bytes, int32_t num_rows) {
  if (output == NULL || output->logits.ctx == NULL) return rl_fail(RL_ERR_ARGUMENT, "The output holds no logits to draw from");
  if (mlx_array_dim(output->logits, 0) != num_rows)
    return rl_fail(RL_ERR_ARGUMENT, "num_rows is %d, allowed %d: the logits rows of the output", num_rows, mlx_array_dim(output->logits, 0));
  forget(&output->draws);
  scope s = scope_open(mlx_default_cpu_stream_new());
  mlx_array logits = op_copy(&s, op_cast(&s, output->logits, MLX_FLOAT32));
  return hand_out(&s, op_host(&s, kernel, params, params_bytes, &logits, 1, SHAPE(num_rows * DRAW_WORDS), MLX_INT32), false, &output->draws);
}

int32_t output_finish_draws(rl_output* output, stream_draws* draws, int32_t* num_rows) {
  if (output == NULL || output->draws.ctx == NULL) return rl_fail(RL_ERR_ARGUMENT, "The output has no draws on their way");
  scope s = {.status = RL_OK};
  scope_check(&s, mlx_array_eval(output->draws));
  if (s.status != RL_OK) return s.status;
  *num_rows = output_num_drawn(output);
  *draws = draws_at((void*)mlx_array_data_int32(output->draws), *num_rows);
  return RL_OK;
}

int32_t output_num_drawn(const rl_output* output) { return output->draws.ctx != NULL ? mlx_array_dim(output->draws, 0) / DRAW_WORDS : 0; }

mlx_array output_drawn_tokens(scope* s, const rl_output* output) { return op_slice(s, output->draws, 0, 0, output_num_drawn(output)); }

int32_t rl_output_read(rl_output* output, float* logits, int64_t capacity) {
  const float* data = NULL;
  int32_t rows = 0, vocabulary = 0, status = output_logits(output, &data, &rows, &vocabulary);
  if (status != RL_OK) return status;
  int64_t num_values = (int64_t)rows * vocabulary;
  if (logits == NULL || capacity < num_values)
    return rl_fail(RL_ERR_ARGUMENT, "rl_output_read: room for %lld floats, the logits are [%d, %d]", (long long)capacity, rows, vocabulary);
  memcpy(logits, data, (size_t)num_values * sizeof *logits);
  return RL_OK;
}

int32_t rl_output_write(rl_output* output, const void* logits, int32_t rows, int32_t vocabulary, int32_t dtype) {
  static const mlx_dtype dtypes[] = {MLX_FLOAT32, MLX_FLOAT16, MLX_BFLOAT16};
  if (output == NULL || logits == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_output_write: output and logits must not be NULL");
  if (rows < 1 || vocabulary < 1 || dtype < 0 || dtype > 2)
    return rl_fail(RL_ERR_ARGUMENT, "rl_output_write: [%d, %d] of type %d; expected sizes >= 1 and type 0 … 2", rows, vocabulary, dtype);
  output_set(output, mlx_array_new_data(logits, (const int[]){rows, vocabulary}, 2, dtypes[dtype]), true);
  return output->logits.ctx != NULL ? RL_OK : rl_fail(RL_ERR_MLX, "rl_output_write: MLX could not take [%d, %d] logits", rows, vocabulary);
}

int32_t rl_output_read_features(rl_output* output, float* features, int64_t capacity) {
  if (output == NULL || features == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_output_read_features: output and features must not be NULL");
  if (output->features.ctx == NULL) return rl_fail(RL_ERR_ARGUMENT, "The output holds no features: none were asked for, or the last call failed");
  int64_t num_values = (int64_t)mlx_array_size(output->features);
  if (capacity < num_values)
    return rl_fail(RL_ERR_ARGUMENT, "rl_output_read_features: room for %lld floats, the features are [%d, %d]", (long long)capacity,
                   mlx_array_dim(output->features, 0), mlx_array_dim(output->features, 1));
  mlx_array floats = mlx_array_empty;
  int32_t status = make_floats(output->features, &floats);
  if (status != RL_OK) return status;
  memcpy(features, mlx_array_data_float32(floats), (size_t)num_values * sizeof *features);
  mlx_array_free(floats);
  return RL_OK;
}
