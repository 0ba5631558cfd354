// Calls on meta tensors.
#include "dispatch/infer.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>

#include <cstring>
#include <unordered_set>

#include "device/device.h"
#include "device/storage.h"

namespace tpu::dispatch {
namespace {

using c10::IValue;

at::Tensor twin(const at::Tensor& t) {
  if (!t.defined() || !device::is_tpu(t)) return t;
  at::Tensor m = at::detail::empty_strided_meta(t.sizes(), t.strides(), t.scalar_type());
  if (t.unsafeGetTensorImpl()->is_wrapped_number()) m.unsafeGetTensorImpl()->set_wrapped_number(true);
  return m;
}

// The value with f applied to every tensor in it, for a call on another device.
template <class F>
IValue mapped(const IValue& v, F f, c10::DeviceType device) {
  if (v.isTensor()) return f(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const IValue& t : v.toListRef()) list.push_back(f(t.toTensor()));
    return list;
  }
  if (v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& t : v.toOptionalTensorList())
      list.push_back(t ? std::optional(f(*t)) : std::nullopt);
    return list;
  }
  if (v.isDevice()) return c10::Device(device);
  if (v.isGenerator()) return IValue();
  return v;
}

graph::Layout layout(const at::Tensor& t) {
  if (!t.defined()) return {.dtype = DType::F32, .sizes = {}, .strides = {}, .absent = true};
  return {device::dtype(t.scalar_type()), t.sizes().vec(), t.strides().vec()};
}

// Ops whose meta kernel does not say what this device returns: the saved statistics of batch norm are empty where it
// does not train, as on the CPU; that of the LSTM cell refuses calls without biases.
bool is_unreliable(const std::string& name) {
  return name == "aten::native_batch_norm" || name == "aten::_native_batch_norm_legit" ||
         name == "aten::_native_batch_norm_legit_functional" || name == "aten::_thnn_fused_lstm_cell";
}

// Ops whose meta kernel lets calls through that the CPU kernel refuses, whatever the data.
bool is_lenient(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::aminmax", "aten::bucketize", "aten::complex", "aten::index_add", "aten::masked_scatter",
  };
  return names.contains(name);
}

// Stand-ins larger than this are not worth a better text.
constexpr int64_t kMostBytes = 64 << 20;

// Lets the CPU kernel say what is wrong with a call: meta kernels that are written in Python word some errors
// differently. Returns where the CPU sees nothing wrong.
void complain(const c10::OperatorHandle& handle, c10::ArrayRef<IValue> values) {
  int64_t bytes = 0;
  auto stand_in = [&](const at::Tensor& t) {
    if (!t.defined() || !device::is_tpu(t)) return t;
    bytes += int64_t(at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize()));
    if (bytes > kMostBytes) return t;
    at::Tensor cpu = at::detail::empty_strided_cpu(t.sizes(), t.strides(), t.scalar_type());
    std::memset(cpu.mutable_data_ptr(), 0, cpu.storage().nbytes());
    return cpu;
  };
  torch::jit::Stack stack;
  for (const IValue& v : values) stack.push_back(mapped(v, stand_in, c10::kCPU));
  if (bytes <= kMostBytes) handle.callBoxed(&stack);
}

void compare(const IValue& actual, const IValue& meta, std::vector<std::optional<graph::Layout>>& resized) {
  auto one = [&](const at::Tensor& t, const at::Tensor& m) {
    if (!t.defined()) return;
    resized.push_back(t.sizes() == m.sizes() ? std::nullopt : std::optional(layout(m)));
  };
  if (actual.isTensor()) return one(actual.toTensor(), meta.toTensor());
  for (size_t i = 0; i < actual.toListRef().size(); ++i)
    one(actual.toListRef()[i].toTensor(), meta.toListRef()[i].toTensor());
}

}  // namespace

Inferred infer(const c10::OperatorHandle& handle, c10::ArrayRef<IValue> values, const std::vector<int>& written,
               bool in_written) {
  Inferred result;
  for (const c10::Argument& r : handle.schema().returns())
    result.list_sizes.push_back(r.type()->kind() == c10::TypeKind::ListType ? 0 : -1);
  if (is_unreliable(handle.schema().name())) return result;
  if (!handle.hasKernelForDispatchKey(c10::DispatchKey::Meta) &&
      !handle.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta))
    return result;
  at::AutoDispatchBelowADInplaceOrView below;
  torch::jit::Stack stack;
  for (const IValue& v : values) stack.push_back(mapped(v, twin, c10::kMeta));
  std::vector<IValue> twins;
  for (int w : written) twins.push_back(stack[size_t(w)]);
  try {
    handle.callBoxed(&stack);
  } catch (const c10::NotImplementedError&) {
    // A composite that only says that a backend must bring its own kernel.
    return result;
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    complain(handle, values);
    std::rethrow_exception(error);
  }
  if (is_lenient(handle.schema().name())) complain(handle, values);
  result.known = true;
  for (size_t i = 0; i < written.size(); ++i) {
    const IValue& actual = values[size_t(written[i])];
    if (!actual.isNone()) compare(actual, twins[i], result.resized);
  }
  if (in_written) return result;
  for (size_t i = 0; i < stack.size(); ++i) {
    const IValue& v = stack[i];
    if (v.isTensor()) {
      result.results.push_back(layout(v.toTensor()));
    } else if (v.isTensorList()) {
      result.list_sizes[i] = int(v.toListRef().size());
      for (const IValue& t : v.toListRef()) result.results.push_back(layout(t.toTensor()));
    }
  }
  return result;
}

}  // namespace tpu::dispatch
