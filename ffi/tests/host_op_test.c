/* Operations of our own when memory cannot be had: an error that says so, and the next one works. */
#include "check.h"
#include "cpu/host_op.h"
#include "ops.h"
#include "rowlock.h"

#ifdef ROWLOCK_HOST_OPS
static int num_runs;

static void fill(const void* params, const host_tensor* inputs, void* output) {
  (void)params, (void)inputs, num_runs++;
  *(float*)output = 17;
}

/* Evaluates the scope's array, and reads its first value. */
static int32_t evaluate(scope* s, mlx_array array, float* first) {
  if (s->status == RL_OK) scope_check(s, mlx_array_eval(array));
  if (s->status == RL_OK) *first = mlx_array_data_float32(array)[0];
  scope_close(s);
  return s->status;
}

/* More bytes than there are addresses. */
enum { FAR = 1 << 23 };

int main(void) {
  install_mlx_error_handler();
  mlx_stream cpu = mlx_default_cpu_stream_new();
  float first = 0;
  for (int i = 0; i < 2; i++) {
    scope s = scope_open(cpu);
    mlx_array one = op_scalar(&s, 1, MLX_FLOAT32);
    CHECK(evaluate(&s, op_host(&s, fill, "", 0, &one, 1, SHAPE(FAR, FAR), MLX_FLOAT32), &first) == RL_ERR_MEMORY);
    s = scope_open(cpu);
    mlx_array many = op_broadcast(&s, op_scalar(&s, 1, MLX_FLOAT32), SHAPE(FAR, FAR));
    host_block_op op = {.kernel = fill, .params = "", .inputs = {many}, .num_inputs = 1};
    CHECK(evaluate(&s, op_host_block(&s, &op), &first) == RL_ERR_MEMORY && num_runs == i);
    s = scope_open(cpu);
    one = op_scalar(&s, 1, MLX_FLOAT32);
    CHECK(evaluate(&s, op_host(&s, fill, "", 0, &one, 1, SHAPE(2), MLX_FLOAT32), &first) == RL_OK && first == 17);
  }
  mlx_stream_free(cpu);
  return finish();
}
#else
int main(void) { return finish(); }
#endif
