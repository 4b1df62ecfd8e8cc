#include "model.h"

#include <stdlib.h>
#include <string.h>

static const architecture* const architectures[] = {&llama};

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

static int32_t load(rl_model* m, config* c, const char* tensors) {
  m->architecture = find_architecture(config_text(c, "model_type"));
  if (m->architecture == NULL) return rl_fail(RL_ERR_MODEL, "The model_type %s is not supported", config_text(c, "model_type"));
  read_sizes(m, c);
  if (c->status != RL_OK) return c->status;
  tensor_table table;
  int32_t status = tensors_open(&table, tensors);
  if (status == RL_OK) {
    weights w = {.config = c, .tensors = &table};
    m->weights = m->architecture->load(&w);
    m->weight_bytes = w.num_bytes;
    status = w.status != RL_OK ? w.status : c->status;
  }
  tensors_close(&table);
  return status;
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
  m->dtype = MLX_FLOAT32;
  m->is_gpu = is_gpu_default();
  m->stream = m->is_gpu ? mlx_default_gpu_stream_new() : mlx_default_cpu_stream_new();
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
  if (model->weights != NULL) model->architecture->unload(model->weights);
  mlx_stream_free(model->stream);
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
  out[4] = 2 * (int64_t)m->num_layers * m->num_kv_heads * m->head_dim * (int64_t)mlx_dtype_size(m->dtype);
  out[5] = 0;
  out[6] = m->dtype == MLX_FLOAT32 ? 0 : m->dtype == MLX_FLOAT16 ? 1 : 2;
  out[7] = 0;
  return RL_OK;
}
