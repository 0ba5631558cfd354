// Copies within a chip, between chips, and between chips and the host.
#include "device/copy.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_conj_physical.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <cstring>

#include "device/device.h"
#include "device/storage.h"
#include "dispatch/op.h"
#include "graph/runtime.h"

namespace tpu::dispatch {
namespace {

using at::Tensor;
using device::is_tpu;

// An array larger than the view of it by more than this is cut on the chip first.
constexpr int64_t kSmallBytes = 64 << 10;

// Storage of the CPU tensor with all bytes of t's storage.
Tensor whole_storage(const Tensor& t) {
  const graph::Cell& cell = device::cell(t);
  const int64_t bytes = std::max<int64_t>(cell.bytes, cell.array ? cell.array->shape()->bytes() : 0);
  Tensor raw = at::detail::empty_cpu({bytes}, c10::kByte);
  const int64_t filled = cell.array ? cell.array->shape()->bytes() : 0;
  if (cell.array) device::translated([&] { device::download(cell.array, raw.mutable_data_ptr()); });
  if (filled < bytes) std::memset(static_cast<char*>(raw.mutable_data_ptr()) + filled, 0, size_t(bytes - filled));
  return raw;
}

Tensor materialized(const Tensor& t) {
  Tensor copy = device::tensor(t.scalar_type(), t.sizes(), row_major_strides(t.sizes()), t.device().index());
  copy.copy_(t);
  return copy;
}

}  // namespace

Tensor to_cpu(const Tensor& t) {
  const graph::Cell& cell = device::cell(t);
  const int64_t held = cell.array ? cell.array->shape()->bytes() : 0;
  if (held > kSmallBytes && held > 4 * int64_t(t.nbytes()) && t.numel() > 0) {
    const Tensor plain = t.is_conj() ? t.conj() : t.is_neg() ? t._neg_view() : t;
    return to_cpu(materialized(plain));
  }
  Tensor raw = whole_storage(t);
  Tensor result = at::detail::empty_cpu({0}, t.scalar_type());
  result.unsafeGetTensorImpl()->set_storage_keep_dtype(raw.storage());
  result.unsafeGetTensorImpl()->set_storage_offset(t.storage_offset());
  result.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides());
  return result;
}

namespace {

void from_host(const Tensor& self, const Tensor& source) {
  Tensor host = source.to(self.scalar_type()).resolve_conj().resolve_neg().expand(self.sizes());
  graph::Cell& cell = device::cell(self);
  const graph::View view = device::view(self);
  if (graph::covers(view, cell.bytes)) {
    host = host.permute(*graph::memory_order(view)).contiguous();
    const Type type{view.dtype, host.sizes().vec()};
    cell.array = type.count() == 0
                     ? graph::ArrayRef()
                     : device::translated([&] { return device::upload(host.data_ptr(), type, cell.device); });
    return;
  }
  Tensor staged = device::tensor(self.scalar_type(), self.sizes(), row_major_strides(self.sizes()), cell.device);
  from_host(staged, host);
  Tensor(self).copy_(staged);
}

void to_host(const Tensor& self, const Tensor& source) {
  Tensor host = to_cpu(source);
  if (source.is_conj() && !host.is_conj()) host = host.conj();
  if (source.is_neg()) host = host._neg_view();
  Tensor(self).copy_(host.expand(self.sizes()));
}

void within_chip(const Tensor& self, const Tensor& source) {
  static const auto copy = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy", "out");
  torch::jit::Stack stack{self, source, false, self};
  copy.callBoxed(&stack);
}

void between_chips(const Tensor& self, const Tensor& source) {
  const int to = self.device().index();
  Tensor whole = graph::is_whole(*graph::shape({device::dtype(source.scalar_type()), source.sizes().vec()}),
                                 device::view(source)) &&
                         array_of(source) && graph::is_whole(*array_of(source)->shape(), device::view(source))
                     ? source
                     : materialized(source);
  const graph::ArrayRef& array = array_of(whole);
  Tensor moved = device::tensor(source.scalar_type(), source.sizes(), row_major_strides(source.sizes()), to);
  if (array) device::cell(moved).array = device::translated([&] { return device::transfer(array, to); });
  Tensor(self).copy_(moved);
}

Tensor& copy_(Tensor& self, const Tensor& given, bool non_blocking) {
  if (self.is_same(given)) return self;
  Tensor source = given.sizes() == self.sizes() ? given : given.expand(self.sizes());
  if (self.numel() == 0) return self;
  if (!is_tpu(self)) {
    TORCH_CHECK(self.device().is_cpu(), "copy_: can't copy from ", source.device(), " to ", self.device());
    to_host(self, source);
    return self;
  }
  if (!is_tpu(source)) {
    TORCH_CHECK(source.device().is_cpu(), "copy_: can't copy from ", source.device(), " to ", self.device());
    if (self.is_conj()) source = source.conj();
    if (self.is_neg()) source = source._neg_view();
    Tensor plain = self.is_conj() ? self.conj() : self;
    from_host(plain.is_neg() ? plain._neg_view() : plain, source);
    return self;
  }
  // Strip the lazy bits from both and make up for those that only one side has.
  Tensor target = self;
  bool conjugate = false, negate = false;
  if (source.is_conj() != target.is_conj()) conjugate = true;
  if (source.is_neg() != target.is_neg()) negate = true;
  if (source.is_conj()) source = source.conj();
  if (target.is_conj()) target = target.conj();
  if (source.is_neg()) source = source._neg_view();
  if (target.is_neg()) target = target._neg_view();
  if (conjugate && source.is_complex()) source = at::_conj_physical(source);
  if (negate) source = source.neg();
  if (source.device() == target.device()) {
    within_chip(target, source);
  } else {
    between_chips(target, source);
  }
  (void)non_blocking;
  return self;
}

Tensor copy_from(const Tensor& source, const Tensor& self, bool non_blocking) {
  Tensor target = self;
  return copy_(target, source, non_blocking);
}

Tensor copy_from_and_resize(const Tensor& source, const Tensor& self) {
  if (self.sizes() != source.sizes()) self.resize_(source.sizes());
  return copy_from(source, self, false);
}

at::Scalar local_scalar_dense(const Tensor& t) {
  TORCH_CHECK(t.numel() == 1, "a Tensor with ", t.numel(), " elements cannot be converted to Scalar");
  return to_cpu(t).item();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("copy_", copy_);
}

}  // namespace
}  // namespace tpu::dispatch
