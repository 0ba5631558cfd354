// Ops whose result sizes depend on the data: a program fills an array as large as can be and counts, then the result
// is cut to the count. So the sizes compile nothing.
#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/unique_consecutive.h>
#include <torch/library.h>

#include "device/device.h"
#include "device/storage.h"
#include "dispatch/op.h"

namespace tpu::dispatch {
namespace {

using at::Tensor;

Tensor new_empty(const Tensor& like, c10::IntArrayRef sizes, c10::ScalarType t) {
  return device::tensor(t, sizes, row_major_strides(sizes), like.device().index());
}

// The first `count` rows of what a program filled.
Tensor cut(const Tensor& filled, const Tensor& count) { return filled.narrow(0, 0, count.item<int64_t>()); }

Tensor nonzero(const Tensor& self) {
  if (self.numel() == 0) return new_empty(self, {0, self.dim()}, c10::kLong);
  const auto r = run_row("tpu::nonzero", {self});
  return cut(r[0], r[1]);
}

Tensor masked_select(const Tensor& self, const Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == c10::kBool, "masked_select: expected BoolTensor for mask");
  const auto sizes = at::infer_size(self.sizes(), mask.sizes());
  if (c10::multiply_integers(sizes) == 0) return new_empty(self, {0}, self.scalar_type());
  const auto r = run_row("tpu::masked_select", {self.expand(sizes), mask.to(self.device()).expand(sizes)});
  return cut(r[0], r[1]);
}

std::tuple<Tensor, Tensor, Tensor> unique(const char* row, const Tensor& self, bool inverse, bool counts) {
  const Tensor none = new_empty(self, {0}, c10::kLong);
  if (self.numel() == 0)
    return {new_empty(self, {0}, self.scalar_type()), inverse ? new_empty(self, self.sizes(), c10::kLong) : none, none};
  const auto r = run_row(row, {self.reshape({-1})});
  return {cut(r[0], r[3]), inverse ? r[1].view(self.sizes()) : none, counts ? cut(r[2], r[3]) : none};
}

std::tuple<Tensor, Tensor, Tensor> unique2(const Tensor& self, bool, bool return_inverse, bool return_counts) {
  return unique("tpu::unique", self, return_inverse, return_counts);
}

std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts,
                                                      std::optional<int64_t> dim) {
  if (dim && self.dim() != 1) {
    // Whole slices are compared on the CPU.
    auto [values, inverse, counts] = at::unique_consecutive(to_cpu(self), return_inverse, return_counts, dim);
    return {values.to(self.device()), inverse.to(self.device()), counts.to(self.device())};
  }
  return unique("tpu::unique_consecutive", self, return_inverse, return_counts);
}

Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == c10::kLong || repeats.scalar_type() == c10::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.numel() == 0) return new_empty(repeats, {0}, repeats.scalar_type());
  const int64_t size = output_size ? *output_size : repeats.sum().item<int64_t>();
  if (size == 0) return new_empty(repeats, {0}, repeats.scalar_type());
  return run_row("tpu::repeat_interleave", {repeats}, {size})[0].to(repeats.scalar_type());
}

bool equal(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "Cannot compare two tensors on different devices. Got: ", self.device(),
              " and ", other.device());
  if (self.sizes() != other.sizes()) return false;
  return self.numel() == 0 || at::eq(self, other).all().item<bool>();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_unique2", unique2);
  m.impl("equal", equal);
  m.impl("masked_select", masked_select);
  m.impl("nonzero", nonzero);
  m.impl("repeat_interleave.Tensor", repeat_interleave);
  m.impl("unique_consecutive", unique_consecutive);
}

}  // namespace
}  // namespace tpu::dispatch
