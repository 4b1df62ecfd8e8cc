#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/elementwise.h"
#include "layers.h"

/* Llama 3.1's scaling: long wavelengths are stretched by `factor`, short ones stay, those between are blended. */
static double llama3_frequency(config* c, double frequency) {
  double factor = config_float(c, "rope_factor", 1e-6, 1e6), original = config_float(c, "rope_original_max_position_embeddings", 1, 1e9);
  double low = config_float(c, "rope_low_freq_factor", 1e-6, 1e6), high = config_float(c, "rope_high_freq_factor", 1e-6, 1e6);
  double wavelength = 2 * M_PI / frequency;
  if (wavelength < original / high) return frequency;
  if (wavelength > original / low) return frequency / factor;
  double smooth = (original / wavelength - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

rope rope_load(weights* w, int dims) {
  config* c = w->config;
  rope r = {.dims = dims, .inv_frequency = calloc((size_t)dims / 2, sizeof(float))};
  if (r.inv_frequency == NULL) return weights_fail(w, "Out of memory for %d rope frequencies", dims / 2), r;
  double theta = config_float(c, "rope_theta", 1, 1e12);
  const char* type = config_text(c, "rope_type");
  for (int i = 0; i < dims / 2; i++) {
    double frequency = pow(theta, -2.0 * i / dims);
    if (strcmp(type, "llama3") == 0) frequency = llama3_frequency(c, frequency);
    else if (strcmp(type, "linear") == 0) frequency /= config_float(c, "rope_factor", 1e-6, 1e6);
    else if (strcmp(type, "default") != 0 && *type != '\0') weights_fail(w, "The rope_type is %s, expected default, linear or llama3", type);
    r.inv_frequency[i] = (float)frequency;
  }
  const tensor* factors = tensors_find(w->tensors, "rope_freqs.weight"); /* GGUF's form of llama 3's scaling: divisors */
  if (factors != NULL && factors->num_dims == 1 && factors->shape[0] == dims / 2 && factors->type->block_size == 1 &&
      factors->type->to_float != NULL) {
    float divisors[dims / 2];
    factors->type->to_float(factors->data, divisors, (size_t)dims / 2);
    for (int i = 0; i < dims / 2; i++) r.inv_frequency[i] /= divisors[i];
  }
  return r;
}

rope rope_plain(weights* w, int dims, double theta) {
  rope r = {.dims = dims, .inv_frequency = calloc((size_t)dims / 2, sizeof(float))};
  if (r.inv_frequency == NULL) return weights_fail(w, "Out of memory for %d rope frequencies", dims / 2), r;
  for (int i = 0; i < dims / 2; i++) r.inv_frequency[i] = (float)pow(theta, -2.0 * i / dims);
  return r;
}

void rope_free(rope* r) {
  free(r->inv_frequency);
  r->inv_frequency = NULL;
}

/* The sines carry the sign of the rotation, so that a rotated head is x * cosines + swapped halves * sines. */
rope_tables rope_prepare(forward* f, const rope* r) {
  scope* s = f->s;
  int half = r->dims / 2;
  size_t num_values = (size_t)f->num_tokens * (size_t)r->dims;
  float* values = malloc(2 * num_values * sizeof *values);
  if (values == NULL) return scope_fail(s, RL_ERR_MEMORY, "Out of memory for rope tables of %d tokens", f->num_tokens), (rope_tables){0};
  float *cosine = values, *sine = values + num_values;
  for (int t = 0; t < f->num_tokens; t++) {
    for (int i = 0; i < half; i++) {
      double angle = (double)f->positions[t] * (double)r->inv_frequency[i];
      float c = (float)cos(angle), n = (float)sin(angle);
      cosine[i] = cosine[half + i] = c;
      sine[i] = -n, sine[half + i] = n;
    }
    cosine += r->dims, sine += r->dims;
  }
  int shape[] = {f->num_tokens, 1, 2, half};
  rope_tables tables = {scope_keep(s, mlx_array_new_data(values, shape, 4, MLX_FLOAT32)),
                        scope_keep(s, mlx_array_new_data(values + num_values, shape, 4, MLX_FLOAT32))};
  free(values);
  return tables;
}

mlx_array rope_apply(scope* s, const rope_tables* t, mlx_array x, int head_dim, int dims) {
  if (s->status != RL_OK) return mlx_array_empty;
  int num_tokens = mlx_array_dim(x, 0), num_heads = mlx_array_dim(x, 1);
  mlx_dtype dtype = mlx_array_dtype(x);
  if (host_ops_available(s) && dtype == MLX_FLOAT32) {
    rope_params params = {dims};
    return op_host(s, host_rope, &params, sizeof params, (const mlx_array[]){x, t->cosines, t->sines}, 3,
                   SHAPE(num_tokens, num_heads, head_dim), MLX_FLOAT32);
  }
  mlx_array rotated = op_reshape(s, op_slice(s, x, 2, 0, dims), SHAPE(num_tokens, num_heads, 2, dims / 2));
  rotated = op_add(s, op_multiply(s, rotated, t->cosines), op_multiply(s, op_flip(s, rotated, 2), t->sines));
  rotated = op_cast(s, op_reshape(s, rotated, SHAPE(num_tokens, num_heads, dims)), dtype);
  if (dims == head_dim) return rotated;
  return op_concatenate(s, (const mlx_array[]){rotated, op_slice(s, x, 2, dims, head_dim)}, 2, 2);
}
