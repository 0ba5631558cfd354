// From the tables of lowerings to kernels: each row, and each in-place and out= overload whose inputs are the same.
#include "dispatch/dispatch.h"

#include <torch/library.h>

#include <algorithm>
#include <unordered_map>

#include "dispatch/op.h"

namespace tpu::dispatch {
namespace {

// Mutating ops whose names don't follow from their functional sibling's.
struct Sibling {
  const char *functional, *mutating;
};
constexpr Sibling kSiblings[] = {
    {"aten::_batch_norm_with_update_functional", "aten::_batch_norm_with_update"},
    {"aten::_native_batch_norm_legit_functional", "aten::_native_batch_norm_legit"},
    {"aten::normal_functional", "aten::normal_"},
};

torch::Library& library() {
  static auto* lib =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  return *lib;
}

std::vector<Kernel>& all_kernels() {
  static auto* list = new std::vector<Kernel>;
  return *list;
}

std::string full_name(const c10::OperatorName& n) {
  return n.overload_name.empty() ? n.name : n.name + "." + n.overload_name;
}

bool writes(const c10::FunctionSchema& s) {
  return std::any_of(s.arguments().begin(), s.arguments().end(),
                     [](const c10::Argument& a) { return a.alias_info() && a.alias_info()->isWrite(); });
}

// The types of a schema's inputs, out tensors left aside.
std::string input_types(const c10::FunctionSchema& s) {
  std::string text;
  for (const c10::Argument& a : s.arguments())
    if (!a.is_out()) text += a.real_type()->str() + ";";
  return text;
}

void add(const ops::Row& row, const c10::OperatorHandle& op, const char* kind) {
  const c10::OperatorName& name = op.operator_name();
  // copy_ crosses devices: dispatch/copy.cpp has it. A kernel in place of a differentiable composite would cut
  // gradients.
  if (name.name == "aten::copy_" || op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) ||
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd))
    return;
  library().impl(full_name(name).substr(6).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Op>(
                                                        row, op.schema(), preparation(full_name(name)))));
  all_kernels().push_back({full_name(name), row.name, kind});
}

}  // namespace

void register_kernels() {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  std::unordered_map<std::string, std::vector<c10::OperatorHandle>> overloads;
  for (const c10::OperatorName& n : dispatcher.getAllOpNames())
    if (auto op = dispatcher.findSchema(n)) {
      overloads[n.name].push_back(*op);
      if (n.name.starts_with("aten::") && op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1))
        all_kernels().push_back({full_name(n), "", "native"});
    }
  for (const ops::Row* row : ops::rows()) {
    const std::string name = row->name;
    if (name.starts_with("tpu::")) continue;  // building blocks, see run_row()
    const size_t dot = name.find('.');
    const std::string base = name.substr(0, dot), overload = dot == std::string::npos ? "" : name.substr(dot + 1);
    const auto op = dispatcher.findSchema({base, overload});
    if (!op) continue;  // this version of PyTorch doesn't have it
    const size_t arguments = op->schema().arguments().size(), taken = row->lowering.kinds.size();
    TORCH_CHECK(arguments == taken || arguments + 1 == taken, name, " has ", arguments,
                " arguments, its lowering takes ", taken);
    add(*row, *op, "row");
    if (writes(op->schema())) continue;
    std::vector<std::string> candidates{base, base + "_"};
    for (const Sibling& s : kSiblings)
      if (base == s.functional) candidates.push_back(s.mutating);
    for (const std::string& candidate : candidates)
      for (const c10::OperatorHandle& h : overloads[candidate])
        if (writes(h.schema()) && input_types(h.schema()) == input_types(op->schema())) add(*row, h, "derived");
  }
}

const std::vector<Kernel>& kernels() { return all_kernels(); }

}  // namespace tpu::dispatch
