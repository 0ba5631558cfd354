// What some ops need done to their arguments before a call is keyed: index tensors on the CPU are brought over, masks
// become positions, ranges get their size.
#include <ATen/core/Tensor.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/nonzero.h>

#include <algorithm>
#include <cmath>

#include "device/storage.h"
#include "dispatch/op.h"

namespace tpu::dispatch {
namespace {

using at::Tensor;
using c10::IValue;
using Indices = c10::List<std::optional<Tensor>>;

bool is_mask(const Tensor& t) { return t.scalar_type() == c10::kBool || t.scalar_type() == c10::kByte; }

bool needs_work(const Indices& indices) {
  for (const std::optional<Tensor>& t : indices)
    if (t && t->defined() && (!device::is_tpu(*t) || is_mask(*t))) return true;
  return false;
}

Indices expanded(const Tensor& self, const Indices& indices) {
  Indices result;
  for (const std::optional<Tensor>& t : indices) {
    if (!t || !t->defined()) {
      result.push_back(std::nullopt);
      continue;
    }
    const Tensor index = t->to(self.device());
    if (!is_mask(index)) {
      result.push_back(index);
      continue;
    }
    for (int64_t d = 0; d < index.dim(); ++d) {
      const auto at = int64_t(result.size()) + 0;
      TORCH_CHECK_INDEX(at < self.dim() && index.size(d) == self.size(at), "The shape of the mask ", index.sizes(),
                        " at index ", d, " does not match the shape of the indexed tensor ", self.sizes(), " at index ",
                        at);
      if (d + 1 < index.dim()) {
        result.push_back(std::nullopt);
        continue;
      }
      const Tensor positions = at::nonzero(index);
      const size_t first = result.size() - size_t(index.dim() - 1);
      for (int64_t column = 0; column + 1 < index.dim(); ++column)
        result.set(first + size_t(column), positions.select(1, column));
      result.push_back(positions.select(1, index.dim() - 1));
    }
  }
  return result;
}

bool prepare_read(torch::jit::Stack& stack, size_t count) {
  IValue* arguments = &*(stack.end() - int64_t(count));
  Indices indices = arguments[1].toOptionalTensorList();
  if (needs_work(indices)) arguments[1] = expanded(arguments[0].toTensor(), indices);
  return false;
}

// A mask, alone, over the first dims, through which one value is written, needs no positions.
std::optional<Tensor> lone_mask(const Tensor& self, const Indices& indices) {
  std::optional<Tensor> mask;
  int64_t dims = 0;
  for (const std::optional<Tensor>& t : indices) {
    if (!t || !t->defined()) {
      ++dims;
      continue;
    }
    if (mask || dims > 0 || !is_mask(*t)) return std::nullopt;
    mask = *t;
  }
  if (!mask || mask->dim() > self.dim() || !device::is_tpu(*mask)) return std::nullopt;
  for (int64_t d = 0; d < mask->dim(); ++d)
    if (mask->size(d) != self.size(d)) return std::nullopt;
  Tensor wide = mask->scalar_type() == c10::kByte ? mask->to(c10::kBool) : *mask;
  for (int64_t d = mask->dim(); d < self.dim(); ++d) wide = wide.unsqueeze(-1);
  return wide;
}

// index_put_(self, indices, values, accumulate) and its like.
template <bool InPlace>
bool prepare_write(torch::jit::Stack& stack, size_t count) {
  IValue* arguments = &*(stack.end() - int64_t(count));
  const Tensor self = arguments[0].toTensor();
  Indices indices = arguments[1].toOptionalTensorList();
  Tensor values = arguments[2].toTensor();
  const bool accumulate = arguments[3].toBool();
  TORCH_CHECK_INDEX(values.scalar_type() == self.scalar_type(), "Index put requires the source and destination dtypes ",
                    "match, got ", self.scalar_type(), " for the destination and ", values.scalar_type(),
                    " for the source.");
  if (values.numel() == 1 && !accumulate) {
    if (std::optional<Tensor> mask = lone_mask(self, indices)) {
      const Tensor value = values.reshape({});
      Tensor result = self;
      if (InPlace) {
        result.masked_fill_(*mask, value);
      } else {
        result = at::masked_fill(self, *mask, value);
      }
      torch::jit::drop(stack, count);
      stack.emplace_back(std::move(result));
      return true;
    }
  }
  if (!device::is_tpu(values) && values.dim() > 0) arguments[2] = values.to(self.device());
  if (needs_work(indices)) arguments[1] = expanded(self, indices);
  return false;
}

// arange(start, end, step, out): the size depends on numbers that flow in at run time, so it is settled here.
bool prepare_range(torch::jit::Stack& stack, size_t count) {
  IValue* arguments = &*(stack.end() - int64_t(count));
  const at::Scalar start = arguments[0].toScalar(), end = arguments[1].toScalar(), step = arguments[2].toScalar();
  const Tensor out = arguments[3].toTensor();
  if (start.isComplex() || end.isComplex() || step.isComplex() || step.toDouble() == 0) return false;
  double span = (end.toDouble() - start.toDouble()) / step.toDouble();
  if (start.isIntegral(true) && end.isIntegral(true) && step.isIntegral(true))
    span = double(end.toLong() - start.toLong()) / double(step.toLong());
  if (!std::isfinite(span) || span < 0) return false;  // the meta kernel says what is wrong
  const auto size = int64_t(std::ceil(span));
  if (out.dim() != 1 || out.numel() != size) at::native::resize_output(out, {size});
  return false;
}

// Bounds of draws flow in at run time, and the meta kernels don't look at them.
bool prepare_uniform(torch::jit::Stack& stack, size_t count) {
  const IValue* arguments = &*(stack.end() - int64_t(count));
  const double from = arguments[1].toDouble(), to = arguments[2].toDouble();
  TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
  return false;
}
bool prepare_bernoulli(torch::jit::Stack& stack, size_t count) {
  const double p = (&*(stack.end() - int64_t(count)))[1].toDouble();
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  return false;
}
void check_whole_range(const Tensor& self, int64_t from, int64_t to) {
  TORCH_CHECK(from < to, "random_ expects 'from' to be less than 'to', but got from=", from, " >= to=", to);
  at::native::templates::check_from_to_in_range(from, to - 1, self.dtype());
}
bool prepare_random_from(torch::jit::Stack& stack, size_t count) {
  const IValue* arguments = &*(stack.end() - int64_t(count));
  if (!arguments[2].isNone()) check_whole_range(arguments[0].toTensor(), arguments[1].toInt(), arguments[2].toInt());
  return false;
}
bool prepare_random_to(torch::jit::Stack& stack, size_t count) {
  const IValue* arguments = &*(stack.end() - int64_t(count));
  check_whole_range(arguments[0].toTensor(), 0, arguments[1].toInt());
  return false;
}

}  // namespace

Prepare preparation(const std::string& name) {
  if (name == "aten::index.Tensor" || name == "aten::index.Tensor_out" || name == "aten::_unsafe_index.Tensor")
    return &prepare_read;
  if (name == "aten::index_put" || name == "aten::_index_put_impl" || name == "aten::_unsafe_index_put")
    return &prepare_write<false>;
  if (name == "aten::index_put_" || name == "aten::_index_put_impl_") return &prepare_write<true>;
  if (name == "aten::arange.start_out") return &prepare_range;
  if (name == "aten::bernoulli_.float") return &prepare_bernoulli;
  if (name == "aten::random_.from") return &prepare_random_from;
  if (name == "aten::random_.to") return &prepare_random_to;
  if (name == "aten::uniform_") return &prepare_uniform;
  return nullptr;
}

}  // namespace tpu::dispatch
