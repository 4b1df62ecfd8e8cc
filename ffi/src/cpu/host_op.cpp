/* The one file that sees MLX's C++: mlx-c offers custom kernels for GPUs only. */
#include "host_op.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "features.h"
}
#include "mlx/allocator.h"
#include "mlx/array.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/primitives.h"
#include "mlx/scheduler.h"
#include "../mlx_dtype.hpp"

namespace {

namespace mx = mlx::core;

std::atomic<bool> are_used = true;

host_tensor describe(const mx::array& a) {
  host_tensor t = {};
  t.data = const_cast<char*>(a.data<char>());
  t.num_dims = static_cast<int>(a.ndim());
  for (int i = 0; i < t.num_dims; i++) t.shape[i] = a.shape(i), t.strides[i] = a.strides(i);
  return t;
}

mx::array& of(mlx_array a) { return *static_cast<mx::array*>(a.ctx); }

host_tensor describe_evaluated(mx::array& a) {
  if (a.status() == mx::array::Status::unscheduled) a.eval();
  return describe(a);
}

/* MLX's allocator leaves it to its caller to look. @throws std::bad_alloc */
mx::allocator::Buffer allocate(size_t num_bytes) {
  mx::allocator::Buffer buffer = mx::allocator::malloc(num_bytes);
  if (buffer.ptr() == nullptr && num_bytes > 0) throw std::bad_alloc();
  return buffer;
}

class HostOp : public mx::UnaryPrimitive {
 public:
  HostOp(mx::Stream stream, host_kernel kernel, std::string params, bool is_in_place)
      : UnaryPrimitive(stream), kernel_(kernel), params_(std::move(params)), is_in_place_(is_in_place) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    if (is_in_place_ && !inputs[0].flags().row_contiguous) throw std::invalid_argument("A host kernel works in place on row-contiguous arrays only");
    if (is_in_place_) out.copy_shared_buffer(inputs[0]);
    else out.set_data(allocate(out.nbytes()));
    std::vector<host_tensor> tensors;
    for (const mx::array& input : inputs) tensors.push_back(describe(input));
    mx::cpu::get_command_encoder(stream()).dispatch([kernel = kernel_, params = params_, tensors = std::move(tensors), output = out.data<char>()]() {
      kernel(params.data(), tensors.data(), output);
    });
  }

  void eval_gpu(const std::vector<mx::array>&, mx::array&) override { throw std::runtime_error("A host kernel cannot run on a GPU"); }

  const char* name() const override { return "HostOp"; }

 private:
  host_kernel kernel_;
  std::string params_;
  bool is_in_place_;
};

struct block_task {
  host_kernel kernel;
  const void* params;
  host_tensor inputs[HOST_MAX_INPUTS]; /* [0] is what the task before has made */
};

/* Blocks that follow each other. */
struct block_chain {
  std::vector<block_task> tasks;
  std::vector<mx::array> held; /* what the tasks point into */
};

/* One operation for a chain of blocks, which costs MLX and the launch as much as one block. */
class HostBlockOp : public mx::UnaryPrimitive {
 public:
  explicit HostBlockOp(mx::Stream stream) : UnaryPrimitive(stream), chain_(std::make_shared<block_chain>()) {
    /* Most chains do not outgrow them. */
    chain_->tasks.reserve(80), chain_->held.reserve(400);
  }

  void add(const host_block_op& op) {
    block_task& task = chain_->tasks.emplace_back(block_task{op.kernel, op.params, {}});
    for (int i = 1; i < op.num_inputs; i++) task.inputs[i] = held(op.inputs[i]);
  }

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    if (inputs[0].is_donatable() && inputs[0].flags().row_contiguous) out.copy_shared_buffer(inputs[0]);
    else out.set_data(allocate(out.nbytes()));
    /* Not by the encoder: it counts what it is given, and from so many tasks on MLX lets the thread that launches wait for the device. The
     * wait bounds the memory of what is in flight, and a block has its scratch in common with the others. */
    mx::scheduler::enqueue(stream(), [chain = chain_, x = describe(inputs[0]), y = describe(out)]() mutable {
      for (block_task& task : chain->tasks) {
        task.inputs[0] = x;
        task.kernel(task.params, task.inputs, y.data);
        x = y;
      }
    });
  }

  void eval_gpu(const std::vector<mx::array>&, mx::array&) override { throw std::runtime_error("A host kernel cannot run on a GPU"); }

  const char* name() const override { return "HostBlockOp"; }

 private:
  host_tensor held(mlx_array a) {
    if (a.ctx == nullptr) return {};
    chain_->held.push_back(of(a));
    return describe_evaluated(of(a));
  }

  std::shared_ptr<block_chain> chain_;
};

/* The operation that will make `x`, if blocks can still join it. */
HostBlockOp* open_block_op(const mx::array& x) {
  bool is_made = x.status() == mx::array::Status::unscheduled && x.has_primitive();
  return is_made ? dynamic_cast<HostBlockOp*>(&x.primitive()) : nullptr;
}

mlx_array make(scope* s, host_kernel kernel, const void* params, size_t params_bytes, const mlx_array* inputs, int num_inputs,
               mx::Shape shape, mx::Dtype dtype, bool is_in_place) {
  try {
    std::vector<mx::array> arrays;
    for (int i = 0; i < num_inputs; i++) arrays.push_back(of(inputs[i]));
    std::string copied(static_cast<const char*>(params), params_bytes);
    auto op = std::make_shared<HostOp>(*static_cast<mx::Stream*>(s->stream.ctx), kernel, std::move(copied), is_in_place);
    return scope_keep(s, mlx_array{new mx::array(std::move(shape), dtype, std::move(op), std::move(arrays))});
  } catch (const std::exception& error) {
    scope_fail_mlx(s, error.what());
    return mlx_array_empty;
  }
}

}  // namespace

void host_ops_configure() { are_used = std::strcmp(cpu_kernels(), "mlx") != 0; }

bool host_ops_available(const scope* s) { return are_used && static_cast<mx::Stream*>(s->stream.ctx)->device == mx::Device::cpu; }

mlx_array op_host(scope* s, host_kernel kernel, const void* params, size_t params_bytes, const mlx_array* inputs, int num_inputs,
                  const int* shape, int num_dims, mlx_dtype dtype) {
  if (s->status != RL_OK) return mlx_array_empty;
  return make(s, kernel, params, params_bytes, inputs, num_inputs, mx::Shape(shape, shape + num_dims), dtype_of(dtype), false);
}

mlx_array op_host_in_place(scope* s, host_kernel kernel, const void* params, size_t params_bytes, const mlx_array* inputs, int num_inputs) {
  if (s->status != RL_OK) return mlx_array_empty;
  return make(s, kernel, params, params_bytes, inputs, num_inputs, of(inputs[0]).shape(), of(inputs[0]).dtype(), true);
}

mlx_array op_host_block(scope* s, const host_block_op* op) {
  if (s->status != RL_OK) return mlx_array_empty;
  try {
    const mx::array& x = of(op->inputs[0]);
    if (HostBlockOp* open = op->starts_anew ? nullptr : open_block_op(x)) return open->add(*op), op->inputs[0];
    auto primitive = std::make_shared<HostBlockOp>(*static_cast<mx::Stream*>(s->stream.ctx));
    primitive->add(*op);
    return scope_keep(s, mlx_array{new mx::array(x.shape(), x.dtype(), std::move(primitive), {x})});
  } catch (const std::exception& error) {
    scope_fail_mlx(s, error.what());
    return mlx_array_empty;
  }
}

host_tensor host_tensor_of(scope* s, mlx_array array) {
  if (array.ctx == nullptr || s->status != RL_OK) return {};
  try {
    return describe_evaluated(of(array));
  } catch (const std::exception& error) {
    scope_fail_mlx(s, error.what());
    return {};
  }
}
