#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "cache.h"
#include "compute_type.h"
#include "cpu/attention.h"
#include "streams.h"

static const architecture* const architectures[] = {&gemma3_text, &llama, &phi3, &qwen2, &qwen3, &qwen3_5, &qwen3_moe, &smollm3};

int32_t model_check_thread(const rl_model* model) {
  if (pthread_equal(model->owner, pthread_self())) return RL_OK;
  return rl_fail(RL_ERR_THREAD, "The model belongs to another thread: every call must come from the thread that loaded it");
}

static const architecture* find_architecture(const char* model_type) {
  for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
    if (strcmp(architectures[i]->model_type, model_type) == 0) return architectures[i];
  return NULL;
}

static bool is_gpu_default(void) {
  mlx_device device = mlx_device_new();
  mlx_device_type type = MLX_CPU;
  mlx_get_default_device(&device);
  mlx_device_get_type(&type, device);
  mlx_device_free(device);
  return type == MLX_GPU;
}

static void read_sizes(rl_model* m, config* c) {
  m->num_layers = config_int(c, "num_hidden_layers", 1, 1000);
  m->num_kv_heads = config_int(c, "num_key_value_heads", 1, 1 << 14);
  m->head_dim = config_int(c, "head_dim", 2, 1 << 14);
  m->hidden_size = config_int(c, "hidden_size", 1, 1 << 20);
  m->vocab_size = config_int(c, "vocab_size", 1, 1 << 24);
}

int32_t model_plan_states(rl_model* m) {
  m->states = calloc((size_t)m->num_layers, sizeof *m->states);
  if (m->states == NULL) return rl_fail(RL_ERR_MEMORY, "Out of memory for %d layers", m->num_layers);
  for (int i = 0; i < m->num_layers; i++) {
    layer_state* state = &m->states[i];
    state->dtypes[STATE_KEYS] = state->dtypes[STATE_VALUES] = m->dtype;
    for (int j = 0; j < 2; j++) state->shapes[j][1] = m->num_kv_heads, state->shapes[j][3] = m->head_dim;
    if (m->kv_is_8_bit)
      for (int j = 0; j < 2; j++) state->dtypes[j] = MLX_UINT8, state->shapes[j][3] = m->head_dim + KV_SCALE_BYTES;
    if (m->architecture != NULL && m->architecture->state != NULL) m->architecture->state(m->weights, i, state);
  }
  return RL_OK;
}

/* `kv_bits` 8; nothing or 0: keys and values as activations are. */
static int32_t choose_kv_type(rl_model* m, const config* c) {
  const char* bits = config_text(c, "kv_bits");
  if (*bits == '\0' || strcmp(bits, "0") == 0) return RL_OK;
  if (strcmp(bits, "8") != 0) return rl_fail(RL_ERR_MODEL, "kv_bits is %s, expected 0 or 8", bits);
  if (!m->uses_host_ops || m->dtype != MLX_FLOAT32 || m->head_dim > HOST_MAX_HEAD_DIM)
    return rl_fail(RL_ERR_MODEL, "Keys and values of 8 bits are there on a CPU under Linux only, with float32 activations and heads of up to %d",
                   HOST_MAX_HEAD_DIM);
  m->kv_is_8_bit = true;
  return RL_OK;
}

/* Bytes of the layers of one kind for one slot, a token's share in those with keys and values. */
static int64_t state_bytes(const rl_model* m, bool is_recurrent) {
  int64_t total = 0;
  for (int i = 0; i < 2 * m->num_layers; i++) {
    const layer_state* state = &m->states[i / 2];
    if (state->is_recurrent != is_recurrent) continue;
    int64_t bytes = (int64_t)mlx_dtype_size(state->dtypes[i % 2]);
    for (int dim = 1; dim < 4; dim++)
      if (is_recurrent || dim != 2) bytes *= state->shapes[i % 2][dim];
    total += bytes;
  }
  return total;
}

int64_t model_kv_bytes(const rl_model* m) { return state_bytes(m, false); }
int64_t model_recurrent_bytes(const rl_model* m) { return state_bytes(m, true); }

static int32_t load(rl_model* m, config* c, const char* tensors) {
  m->architecture = find_architecture(config_text(c, "model_type"));
  if (m->architecture == NULL) return rl_fail(RL_ERR_MODEL, "The model_type %s is not supported", config_text(c, "model_type"));
  read_sizes(m, c);
  if (c->status != RL_OK) return c->status;
  tensor_table table;
  compute_type type = {MLX_FLOAT32, false};
  int32_t status = tensors_open(&table, tensors);
  if (status == RL_OK) status = choose_compute_type(c, &table, m->is_gpu, m->uses_host_ops, &type);
  if (status == RL_OK) {
    m->dtype = type.dtype;
    status = choose_kv_type(m, c);
  }
  if (status == RL_OK) {
    weights w = {.config = c, .tensors = &table, .dtype = type.dtype, .keeps_stored = type.keeps_stored,
                 .uses_host_ops = m->uses_host_ops && type.dtype == MLX_FLOAT32};
    m->weights = m->architecture->load(&w);
    m->weight_bytes = w.num_bytes;
    status = w.status != RL_OK ? w.status : c->status;
  }
  tensors_close(&table);
  return status == RL_OK ? model_plan_states(m) : status;
}

int32_t rl_model_load(const char* config_lines, const char* tensors, rl_model** out) {
  if (config_lines == NULL || tensors == NULL || out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_model_load: no argument may be NULL");
  install_mlx_error_handler();
  config c;
  int32_t status = config_parse(&c, config_lines);
  if (status != RL_OK) return status;
  rl_model* m = calloc(1, sizeof *m);
  if (m == NULL) return config_free(&c), rl_fail(RL_ERR_MEMORY, "Out of memory for a model");
  m->owner = pthread_self();
  m->is_gpu = is_gpu_default();
  m->stream = stream_take(m->is_gpu);
  host_ops_configure();
  scope s = scope_open(m->stream);
  m->uses_host_ops = host_ops_available(&s);
  status = load(m, &c, tensors);
  config_free(&c);
  if (status == RL_OK) return *out = m, RL_OK;
  rl_model_free(m);
  return status;
}

int32_t rl_model_free(rl_model* model) {
  if (model == NULL) return RL_OK;
  int32_t status = model_check_thread(model);
  if (status != RL_OK) return status;
  /* What runs may point into the weights. */
  mlx_synchronize(model->stream);
  if (model->weights != NULL) model->architecture->unload(model->weights);
  stream_give_back(model->stream, model->is_gpu);
  free(model->states);
  free(model->capture_layers);
  free(model);
  mlx_clear_cache();
  return RL_OK;
}

int32_t rl_model_info(const rl_model* m, int64_t* out) {
  if (m == NULL || out == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_model_info: model and out must not be NULL");
  out[0] = (int64_t)m->weight_bytes;
  out[1] = m->vocab_size;
  out[2] = m->hidden_size;
  out[3] = m->num_layers;
  out[4] = model_kv_bytes(m);
  out[5] = model_recurrent_bytes(m);
  out[6] = m->dtype == MLX_FLOAT32 ? 0 : m->dtype == MLX_FLOAT16 ? 1 : 2;
  out[7] = cache_is_sparse(m);
  out[8] = m->uses_host_ops;
  return RL_OK;
}

int32_t rl_model_capture(rl_model* m, int32_t kind, const int32_t* layers, int32_t num_layers) {
  if (m == NULL) return rl_fail(RL_ERR_ARGUMENT, "rl_model_capture: model must not be NULL");
  int32_t status = model_check_thread(m);
  if (status != RL_OK) return status;
  bool wants_layers = kind == RL_CAPTURE_LAYERS;
  if (kind < RL_CAPTURE_NONE || kind > RL_CAPTURE_LAYERS || wants_layers != (num_layers > 0) || (wants_layers && layers == NULL))
    return rl_fail(RL_ERR_ARGUMENT, "rl_model_capture: kind %d with %d layers; expected 0 or 1 with none, or 2 with 1 or more", kind, num_layers);
  for (int i = 0; i < num_layers; i++)
    if (layers[i] < 0 || layers[i] >= m->num_layers)
      return rl_fail(RL_ERR_ARGUMENT, "rl_model_capture: layer %d is %d, expected 0 … %d", i, layers[i], m->num_layers - 1);
  int* own = num_layers > 0 ? malloc((size_t)num_layers * sizeof *own) : NULL;
  if (num_layers > 0 && own == NULL) return rl_fail(RL_ERR_MEMORY, "Out of memory for %d layer numbers", num_layers);
  for (int i = 0; i < num_layers; i++) own[i] = layers[i];
  free(m->capture_layers);
  m->capture_kind = kind, m->capture_layers = own, m->num_capture_layers = num_layers;
  return RL_OK;
}
