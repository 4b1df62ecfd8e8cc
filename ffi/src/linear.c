/* Sharing and freeing of loaded matrices. */
#include "weights.h"

static mlx_array shared(mlx_array array) {
  mlx_array own = mlx_array_empty;
  if (array.ctx != NULL) {
    own = mlx_array_new();
    mlx_array_set(&own, array);
  }
  return own;
}

mlx_array transposed_view(mlx_array values) {
  mlx_array view = mlx_array_new();
  mlx_stream cpu = mlx_default_cpu_stream_new();
  mlx_swapaxes(&view, values, -1, -2, cpu);
  mlx_stream_free(cpu);
  return view;
}

linear linear_of_embedding(const embedding* e) {
  const matrix* t = &e->table;
  matrix m = {.format = t->format, .values = shared(t->values), .transposed = shared(t->transposed), .scales = shared(t->scales),
              .biases = shared(t->biases), .columns = t->columns};
  return (linear){.parts = {m}, .num_parts = 1};
}

void array_free(mlx_array* array) {
  if (array->ctx != NULL) mlx_array_free(*array);
  *array = mlx_array_empty;
}

static void matrix_free(matrix* m) {
  array_free(&m->values);
  array_free(&m->transposed);
  array_free(&m->scales);
  array_free(&m->biases);
}

void linear_free(linear* l) {
  for (int i = 0; i < l->num_parts; i++) matrix_free(&l->parts[i]);
  array_free(&l->bias);
  *l = (linear){0};
}

void embedding_free(embedding* e) { matrix_free(&e->table); }
