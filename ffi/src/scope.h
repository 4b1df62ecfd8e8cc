/* A scope owns the temporaries of one call and frees them as a whole; its first error sticks, so that model code reads like the paper:
 * no clean-up and no checks between operations. After an error every operation returns an empty array. */
#ifndef ROWLOCK_SCOPE_H
#define ROWLOCK_SCOPE_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "mlx/c/mlx.h"

typedef struct scope {
  mlx_stream stream;
  mlx_array* arrays;
  size_t num_arrays, max_arrays;
  int32_t status; /* RL_OK, or the first error; its text is the thread's last error */
} scope;

scope scope_open(mlx_stream stream);

/* Frees every temporary. Close before evaluating: MLX reuses a buffer in place when the graph holds its only reference. */
void scope_close(scope* s);

/* Takes ownership of `array` for the scope's life. */
mlx_array scope_keep(scope* s, mlx_array array);

/* A reference of the caller's own that outlives the scope. */
mlx_array scope_release(scope* s, mlx_array array);

/* Sets the error if there is none yet. */
void scope_fail(scope* s, int32_t code, const char* format, ...) __attribute__((format(printf, 3, 4)));

/* The same for what MLX says of an error: RL_ERR_MEMORY when memory cannot be had, else RL_ERR_MLX. */
void scope_fail_mlx(scope* s, const char* message);

/* MLX's errors become this thread's last error (its default handler ends the process). Idempotent. */
void install_mlx_error_handler(void);

/* Notes the result of an mlx-c call: a non-zero `status` becomes the scope's error. */
void scope_check(scope* s, int status);

#endif
