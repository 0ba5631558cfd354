// Making tensors, looking at them differently, and giving storages another size: nothing here runs a program.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DefaultTensorOptions.h>
#include <torch/library.h>

#include "device/device.h"
#include "device/storage.h"

namespace tpu::dispatch {
namespace {

using at::Tensor;

int target(std::optional<c10::Device> d) { return device::index(d ? *d : c10::Device(c10::kPrivateUse1)); }

void check_options(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(!layout || *layout == c10::kStrided, "tpu tensors have no layout ", *layout);
  TORCH_CHECK(!pin_memory || !*pin_memory, "Only dense CPU tensors can be pinned");
}

Tensor empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
             std::optional<c10::Device> d, std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> format) {
  check_options(layout, pin_memory);
  at::detail::check_size_nonnegative(sizes);
  const c10::ScalarType t = c10::dtype_or_default(dtype);
  device::dtype(t);
  Tensor result = device::tensor(t, sizes, row_major_strides(sizes), target(d));
  if (format && *format != c10::MemoryFormat::Contiguous) result.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return result;
}

Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<c10::ScalarType> dtype,
                     std::optional<c10::Layout> layout, std::optional<c10::Device> d, std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  at::detail::check_size_nonnegative(sizes);
  const c10::ScalarType t = c10::dtype_or_default(dtype);
  device::dtype(t);
  return device::tensor(t, sizes, strides, target(d));
}

// Makes the storage reach as far as the tensor does.
void grow(const Tensor& self) {
  const size_t bytes =
      at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.itemsize(), size_t(self.storage_offset()));
  c10::StorageImpl* storage = self.storage().unsafeGetStorageImpl();
  if (bytes <= storage->nbytes()) return;
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  device::resize(*storage, int64_t(bytes));
}

const Tensor& resize_(const Tensor& self, c10::IntArrayRef sizes, std::optional<c10::MemoryFormat> format) {
  at::detail::check_size_nonnegative(sizes);
  if (self.sizes() != sizes) {
    self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    grow(self);
  }
  if (format) self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return self;
}

Tensor& set_view(Tensor& self, c10::Storage source, int64_t offset, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  TORCH_CHECK(offset >= 0, "Tensor: invalid storage offset ", offset);
  TORCH_CHECK(source.device() == self.device(), "Attempted to set the storage of a tensor on device \"", self.device(),
              "\" to a storage on different device \"", source.device(), "\".");
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  if (strides.data()) {
    self.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  } else {
    self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  }
  grow(self);
  return self;
}

Tensor& set_storage(Tensor& self, c10::Storage source) {
  const int64_t count = int64_t(source.nbytes() / self.itemsize());
  return set_view(self, std::move(source), 0, {count}, {});
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
  return self.is_same(source)
             ? self
             : set_view(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

Tensor& set_empty(Tensor& self) { return set_view(self, device::storage(0, self.device().index()), 0, {0}, {}); }

Tensor pin_memory(const Tensor&, std::optional<c10::Device>) {
  TORCH_CHECK(false, "cannot pin 'torch.tpu.FloatTensor' only dense CPU tensors can be pinned");
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_pin_memory", pin_memory);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("resize_", resize_);
  m.impl("set_", set_empty);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Storage_storage_offset", set_view);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("unfold", at::native::unfold);
  m.impl("view", at::native::view);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("view_as_real", at::native::view_as_real);
}

}  // namespace
}  // namespace tpu::dispatch
