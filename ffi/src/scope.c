#include "scope.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the last error that MLX has reported in this thread. */
static _Thread_local int32_t mlx_code = RL_ERR_MLX;

/* Memory that cannot be had, in the words of C++, of MLX and of Metal. */
static bool is_shortage(const char* message) {
  return strstr(message, "bad_alloc") != NULL || strstr(message, "llocate") != NULL || strstr(message, "nsufficient Memory") != NULL;
}

static int32_t code_of(const char* message) { return is_shortage(message) ? RL_ERR_MEMORY : RL_ERR_MLX; }

static void keep_mlx_error(const char* message, void* unused) {
  (void)unused;
  mlx_code = code_of(message);
  /* mlx-c appends " at <build path>:<line>", which says nothing to a user. */
  const char* place = strstr(message, " at /");
  rl_fail(mlx_code, "MLX: %.*s", place != NULL ? (int)(place - message) : (int)strlen(message), message);
}

void install_mlx_error_handler(void) {
  static bool is_installed;
  if (is_installed) return;
  is_installed = true;
  mlx_set_error_handler(keep_mlx_error, NULL, NULL);
}

scope scope_open(mlx_stream stream) { return (scope){.stream = stream, .status = RL_OK}; }

void scope_close(scope* s) {
  for (size_t i = 0; i < s->num_arrays; i++) mlx_array_free(s->arrays[i]);
  free(s->arrays);
  s->arrays = NULL;
  s->num_arrays = s->max_arrays = 0;
}

mlx_array scope_keep(scope* s, mlx_array array) {
  if (s->num_arrays == s->max_arrays) {
    size_t max_arrays = s->max_arrays == 0 ? 64 : 2 * s->max_arrays;
    mlx_array* arrays = realloc(s->arrays, max_arrays * sizeof *arrays);
    if (arrays == NULL) {
      mlx_array_free(array);
      scope_fail(s, RL_ERR_MEMORY, "Cannot grow a scope to %zu temporaries", max_arrays);
      return mlx_array_empty;
    }
    s->arrays = arrays;
    s->max_arrays = max_arrays;
  }
  s->arrays[s->num_arrays++] = array;
  return array;
}

mlx_array scope_release(scope* s, mlx_array array) {
  mlx_array own = mlx_array_new();
  if (s->status == RL_OK) scope_check(s, mlx_array_set(&own, array));
  return own;
}

void scope_fail(scope* s, int32_t code, const char* format, ...) {
  if (s->status != RL_OK) return;
  char text[900];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  s->status = rl_fail(code, "%s", text);
}

void scope_fail_mlx(scope* s, const char* message) { scope_fail(s, code_of(message), "MLX: %s", message); }

void scope_check(scope* s, int status) {
  if (status != 0 && s->status == RL_OK) s->status = mlx_code;
}
