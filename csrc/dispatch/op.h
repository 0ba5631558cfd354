// The kernel behind every op that has a lowering: a call is keyed, its program found or made, and run.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <string>
#include <vector>

#include "graph/lower.h"
#include "ops/ops.h"

namespace tpu::dispatch {

// What an argument of the schema is, as far as a call needs to know.
struct Param {
  enum class Type : uint8_t {
    Tensor,
    TensorList,
    OptionalTensorList,
    Scalar,
    Int,
    Float,
    Bool,
    Ints,
    Floats,
    Bools,
    String,
    DType,
    Generator,
    Other
  };
  Type type = Type::Other;
  ops::Kind kind = ops::Kind::Ignored;
  bool lowered = false;  // is a parameter of the lowering, not only a tensor to write to
  bool written = false;
};

// Rewrites the `count` arguments of a call before it is keyed, e.g. masks into indices. True where it did the whole
// call itself and left the results on the stack.
using Prepare = bool (*)(torch::jit::Stack& stack, size_t count);
// Of an op by its full name; null for most.
Prepare preparation(const std::string& name);

// One schema (functional, in place or out=) over one lowering. Constant once made; called from any thread.
class Op final : public c10::OperatorKernel {
 public:
  Op(const ops::Row& row, const c10::FunctionSchema& schema, Prepare prepare);

  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  void settle(torch::jit::Stack& stack) const;
  int device(c10::ArrayRef<c10::IValue> values) const;
  void record(c10::ArrayRef<c10::IValue> values, graph::Call& call) const;
  const graph::Program* build(const c10::OperatorHandle& handle, const torch::jit::Stack& stack, graph::Call& call);
  graph::Request request(c10::ArrayRef<c10::IValue> values, const graph::Call& call) const;
  void finish(const graph::Program& program, std::vector<graph::ArrayRef>& results, int device,
              torch::jit::Stack* stack) const;

  const ops::Row& row_;
  std::vector<Param> params_;     // one for each argument of the schema
  std::vector<int> written_;      // arguments that the call overwrites
  size_t returns_ = 0;            // of the schema
  size_t spare_ = 0;              // how many of the last written_ a lowering may leave as they are
  bool returns_written_ = false;  // the returns are the written tensors
  bool trailing_rng_ = false;     // the lowering draws numbers though the schema has no generator
  Prepare prepare_;
};

// Runs a row that belongs to no schema ("tpu::nonzero"): tensors first, then what is compiled in. Gives one tensor for
// each result of the lowering.
std::vector<at::Tensor> run_row(const char* name, at::ArrayRef<at::Tensor> tensors, std::vector<ops::Arg> baked = {});

// The array of t's storage, brought to t's own dtype; null if nothing was ever written there.
const graph::ArrayRef& array_of(const at::Tensor& t);

// Runs an op on the CPU and brings the results back.
void fall_back(const c10::OperatorHandle& handle, torch::jit::Stack* stack);

// The elements of t as a CPU tensor of the same sizes.
at::Tensor to_cpu(const at::Tensor& t);

}  // namespace tpu::dispatch
