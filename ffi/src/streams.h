/* The streams that models compute on. */
#ifndef ROWLOCK_STREAMS_H
#define ROWLOCK_STREAMS_H

#include <stdbool.h>

#include "mlx/c/mlx.h"

/* The calling thread's default stream, as a handle of the caller's; all models of a thread share it. On a CPU a stream is a thread of MLX's, which
 * never ends: one that another thread has given back is taken before a new one is made. */
mlx_stream stream_take(bool is_gpu);

/* Gives such a handle back, in the thread that has taken it, when nothing is in flight. */
void stream_give_back(mlx_stream stream, bool is_gpu);

#endif
