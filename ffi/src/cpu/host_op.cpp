/* The one file that sees MLX's C++: mlx-c offers custom kernels for GPUs only. */
#include "host_op.h"

#include <atomic>
#include <cstring>
#include <memory>
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

class HostOp : public mx::UnaryPrimitive {
 public:
  HostOp(mx::Stream stream, host_kernel kernel, std::string params, bool is_in_place)
      : UnaryPrimitive(stream), kernel_(kernel), params_(std::move(params)), is_in_place_(is_in_place) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    if (is_in_place_ && !inputs[0].flags().row_contiguous) throw std::invalid_argument("A host kernel works in place on row-contiguous arrays only");
    if (is_in_place_) out.copy_shared_buffer(inputs[0]);
    else out.set_data(mx::allocator::malloc(out.nbytes()));
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

class HostBlockOp : public mx::Primitive {
 public:
  HostBlockOp(mx::Stream stream, const host_block_op& op)
      : Primitive(stream), kernel_(op.kernel), params_(static_cast<const char*>(op.params), op.params_bytes) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    std::vector<void*> written;
    for (size_t i = 0; i < outputs.size(); i++) {
      const mx::array& input = inputs[i];
      if (i > 0 && !input.flags().row_contiguous) throw std::invalid_argument("A host kernel works in place on row-contiguous arrays only");
      bool takes_buffer = i > 0 || (input.is_donatable() && input.flags().row_contiguous);
      if (takes_buffer) outputs[i].copy_shared_buffer(input);
      else outputs[i].set_data(mx::allocator::malloc(outputs[i].nbytes()));
      written.push_back(outputs[i].data<char>());
    }
    std::vector<host_tensor> tensors;
    for (const mx::array& input : inputs) tensors.push_back(describe(input));
    /* Not by the encoder: it counts what it is given, and from so many tasks on MLX lets the thread that launches wait for the device. The
     * wait bounds the memory of what is in flight, and a block has its scratch in common with the others. */
    auto task = [kernel = kernel_, params = params_, tensors = std::move(tensors), written = std::move(written)]() {
      kernel(params.data(), tensors.data(), written.data());
    };
    mx::scheduler::enqueue(stream(), std::move(task));
  }

  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override { throw std::runtime_error("A host kernel cannot run on a GPU"); }

  const char* name() const override { return "HostBlockOp"; }

 private:
  host_block_kernel kernel_;
  std::string params_;
};

mx::array& of(mlx_array a) { return *static_cast<mx::array*>(a.ctx); }

mlx_array make(scope* s, host_kernel kernel, const void* params, size_t params_bytes, const mlx_array* inputs, int num_inputs,
               mx::Shape shape, mx::Dtype dtype, bool is_in_place) {
  try {
    std::vector<mx::array> arrays;
    for (int i = 0; i < num_inputs; i++) arrays.push_back(of(inputs[i]));
    std::string copied(static_cast<const char*>(params), params_bytes);
    auto op = std::make_shared<HostOp>(*static_cast<mx::Stream*>(s->stream.ctx), kernel, std::move(copied), is_in_place);
    return scope_keep(s, mlx_array{new mx::array(std::move(shape), dtype, std::move(op), std::move(arrays))});
  } catch (const std::exception& error) {
    scope_fail(s, RL_ERR_MLX, "MLX: %s", error.what());
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

void op_host_block(scope* s, const host_block_op* op, mlx_array* results) {
  for (int i = 0; i <= op->num_in_place; i++) results[i] = mlx_array_empty;
  if (s->status != RL_OK) return;
  try {
    std::vector<mx::array> inputs;
    std::vector<mx::Shape> shapes;
    std::vector<mx::Dtype> dtypes;
    for (int i = 0; i < op->num_inputs; i++) inputs.push_back(of(op->inputs[i]));
    for (int i = 0; i <= op->num_in_place; i++) shapes.push_back(inputs[i].shape()), dtypes.push_back(inputs[i].dtype());
    auto primitive = std::make_shared<HostBlockOp>(*static_cast<mx::Stream*>(s->stream.ctx), *op);
    std::vector<mx::array> outputs = mx::array::make_arrays(std::move(shapes), dtypes, primitive, inputs);
    for (int i = 0; i <= op->num_in_place; i++) results[i] = scope_keep(s, mlx_array{new mx::array(std::move(outputs[i]))});
  } catch (const std::exception& error) {
    scope_fail(s, RL_ERR_MLX, "MLX: %s", error.what());
  }
}
