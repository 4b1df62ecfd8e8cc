#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/elementwise.h"
#include "layers.h"

/* A key's number, or `missing` where the config has none. */
static double optional(config* c, const char* key, double low, double high, double missing) {
  return config_has(c, key) ? config_float(c, key, low, high) : missing;
}

static double factor_of(config* c) { return config_float(c, "rope_factor", 1e-6, 1e6); }
static double original_context(config* c) { return config_float(c, "rope_original_max_position_embeddings", 1, 1e9); }

/* The longest sequence that is served. Scalings that depend on a sequence's length take it for all of them: keys stay in the cache, and what is
 * computed for a row must not depend on how long it gets. */
static double served_context(config* c) { return optional(c, "served_context", 1, 1e9, 0); }

static bool is_beyond_original(config* c) { return served_context(c) > original_context(c); }

/* Llama 3.1's scaling: long wavelengths are stretched by `factor`, short ones stay, those between are blended. */
static double llama3_frequency(config* c, double frequency) {
  double factor = factor_of(c), original = original_context(c);
  double low = config_float(c, "rope_low_freq_factor", 1e-6, 1e6), high = config_float(c, "rope_high_freq_factor", 1e-6, 1e6);
  double wavelength = 2 * M_PI / frequency;
  if (wavelength < original / high) return frequency;
  if (wavelength > original / low) return frequency / factor;
  double smooth = (original / wavelength - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

/* The (fractional) index of the frequency that turns `rotations` times over the original context. */
static double yarn_index(config* c, int dims, double theta, double rotations) {
  return dims * log(original_context(c) / (rotations * 2 * M_PI)) / (2 * log(theta));
}

/* YaRN (Peng et al., arXiv 2309.00071): frequencies that turn often within the original context stay, those that turn seldom are stretched. */
static double yarn_frequency(config* c, int dims, double theta, int i, double frequency) {
  double low = yarn_index(c, dims, theta, optional(c, "rope_beta_fast", 1e-6, 1e6, 32));
  double high = yarn_index(c, dims, theta, optional(c, "rope_beta_slow", 1e-6, 1e6, 1));
  if (!config_has(c, "rope_truncate") || config_bool(c, "rope_truncate")) low = floor(low), high = ceil(high);
  low = fmax(low, 0), high = fmin(high, dims - 1);
  if (low == high) high += 0.001;
  double stretched = fmin(fmax((i - low) / (high - low), 0), 1);
  return frequency / factor_of(c) * stretched + frequency * (1 - stretched);
}

/* NTK-aware scaling: the base that makes the longest sequence turn the slowest frequency as far as the original context did. */
static double dynamic_theta(config* c, int dims, double theta) {
  double factor = factor_of(c), original = original_context(c), length = fmax(served_context(c), original);
  return dims > 2 ? theta * pow(factor * length / original - (factor - 1), dims / (dims - 2.0)) : theta;
}

/* The i-th of a comma-joined list of divisors. */
static double divisor_of_list(config* c, const char* key, int i) {
  const char* entry = config_entry(c, key, i);
  char* end = NULL;
  double value = entry != NULL ? strtod(entry, &end) : 0;
  if (c->status == RL_OK && (entry == NULL || end == entry || !(value > 0)))
    c->status = rl_fail(RL_ERR_MODEL, "The model config's %s has too few positive numbers: %.80s", key, config_text(c, key));
  return value > 0 ? value : 1;
}

/* LongRoPE (Ding et al., arXiv 2402.13753): a divisor of its own for each frequency, one list for contexts up to the original one and another
 * for longer ones. They are in the config, or in tensors of a GGUF file. */
static double longrope_frequency(weights* w, int i, double frequency) {
  const char* key = is_beyond_original(w->config) ? "rope_long_factors" : "rope_short_factors";
  return config_has(w->config, key) ? frequency / divisor_of_list(w->config, key, i) : frequency;
}

static double scaled_frequency(weights* w, const char* type, int dims, double theta, int i) {
  config* c = w->config;
  if (strcmp(type, "dynamic") == 0) theta = dynamic_theta(c, dims, theta);
  double frequency = pow(theta, -2.0 * i / dims);
  if (strcmp(type, "linear") == 0) return frequency / factor_of(c);
  if (strcmp(type, "llama3") == 0) return llama3_frequency(c, frequency);
  if (strcmp(type, "yarn") == 0) return yarn_frequency(c, dims, theta, i, frequency);
  if (strcmp(type, "longrope") == 0) return longrope_frequency(w, i, frequency);
  if (strcmp(type, "default") != 0 && strcmp(type, "dynamic") != 0 && *type != '\0')
    weights_fail(w, "The rope_type is %s, expected default, linear, dynamic, llama3, yarn or longrope", type);
  return frequency;
}

/* GGUF files carry the divisors of Llama 3's scaling and of LongRoPE's as tensors. */
static void divide_by_tensor(weights* w, const char* name, rope* r) {
  const tensor* t = tensors_find(w->tensors, name);
  if (t == NULL) return;
  if (t->num_dims != 1 || t->shape[0] != r->dims / 2 || t->type->block_size != 1 || t->type->to_float == NULL) {
    weights_fail(w, "Tensor %s has %lld values of type %s, expected %d of a float type", name, (long long)t->shape[0], t->type->name,
                 r->dims / 2);
    return;
  }
  float divisors[r->dims / 2];
  t->type->to_float(t->data, divisors, (size_t)r->dims / 2);
  for (int i = 0; i < r->dims / 2; i++) r->inv_frequency[i] /= divisors[i];
}

rope rope_load(weights* w, int dims) {
  config* c = w->config;
  if (config_has(c, "rotary_dims")) dims = config_int(c, "rotary_dims", 2, dims);
  rope r = {.dims = dims, .inv_frequency = calloc((size_t)dims / 2, sizeof(float))};
  if (r.inv_frequency == NULL) return weights_fail(w, "Out of memory for %d rope frequencies", dims / 2), r;
  double theta = config_float(c, "rope_theta", 1, 1e12);
  const char* type = config_text(c, "rope_type");
  r.magnitude = (float)optional(c, "rope_attention_factor", 1e-6, 1e6, 1);
  for (int i = 0; i < dims / 2; i++) r.inv_frequency[i] = (float)scaled_frequency(w, type, dims, theta, i);
  divide_by_tensor(w, "rope_freqs.weight", &r);
  if (strcmp(type, "longrope") == 0)
    divide_by_tensor(w, is_beyond_original(c) ? "rope_factors_long.weight" : "rope_factors_short.weight", &r);
  return r;
}

rope rope_plain(weights* w, int dims, double theta) {
  rope r = {.dims = dims, .inv_frequency = calloc((size_t)dims / 2, sizeof(float)), .magnitude = 1};
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
      float c = r->magnitude * (float)cos(angle), n = r->magnitude * (float)sin(angle);
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
