// Storages whose memory is a cell, and the tensors over them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include "graph/cell.h"
#include "graph/program.h"
#include "graph/view.h"

namespace tpu::device {

c10::Allocator* allocator();
c10::Storage storage(int64_t bytes, int device);
// A new tensor that shows `array` (null: zeros). The layout's strides must be without gaps.
at::Tensor tensor(const graph::Layout& layout, int device, graph::ArrayRef array);
// The same by sizes and strides of any kind; the storage is as large as they reach.
at::Tensor tensor(c10::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int device);

inline bool is_tpu(const at::TensorBase& t) { return t.device().type() == c10::kPrivateUse1; }
graph::Cell& cell(const c10::StorageImpl& s);
inline graph::Cell& cell(const at::TensorBase& t) { return cell(*t.storage().unsafeGetStorageImpl()); }
graph::View view(const at::TensorBase& t);

// Gives a storage another size; what is there stays.
void resize(c10::StorageImpl& s, int64_t bytes);

}  // namespace tpu::device
