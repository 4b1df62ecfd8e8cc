#include "streams.h"

#ifdef ROWLOCK_HOST_OPS
#include <pthread.h>
#include <stdlib.h>

typedef struct idle_stream {
  mlx_stream stream;
  struct idle_stream* next;
} idle_stream;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static idle_stream* idle; /* of threads that have no models any more */
static _Thread_local idle_stream* own;
static _Thread_local int num_taken;

/* NULL without memory for it. */
static idle_stream* new_stream(void) {
  idle_stream* s = malloc(sizeof *s);
  if (s == NULL) return NULL;
  mlx_device cpu = mlx_device_new_type(MLX_CPU, 0);
  *s = (idle_stream){.stream = mlx_stream_new_thread_unsafe(cpu)};
  mlx_device_free(cpu);
  return s;
}

static idle_stream* idle_or_new(void) {
  pthread_mutex_lock(&lock);
  idle_stream* s = idle;
  if (s != NULL) idle = s->next;
  pthread_mutex_unlock(&lock);
  return s != NULL ? s : new_stream();
}

mlx_stream stream_take(bool is_gpu) {
  if (is_gpu) return mlx_default_gpu_stream_new();
  if (num_taken++ == 0 && (own = idle_or_new()) != NULL) mlx_set_default_stream(own->stream);
  return mlx_default_cpu_stream_new();
}

void stream_give_back(mlx_stream stream, bool is_gpu) {
  mlx_stream_free(stream);
  if (is_gpu || --num_taken > 0 || own == NULL) return;
  pthread_mutex_lock(&lock);
  own->next = idle;
  idle = own;
  pthread_mutex_unlock(&lock);
  own = NULL;
}
#else
mlx_stream stream_take(bool is_gpu) { return is_gpu ? mlx_default_gpu_stream_new() : mlx_default_cpu_stream_new(); }

void stream_give_back(mlx_stream stream, bool is_gpu) { (void)is_gpu, mlx_stream_free(stream); }
#endif
