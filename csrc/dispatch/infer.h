// What a call returns, asked of PyTorch's own meta kernel.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <vector>

#include "graph/program.h"

namespace tpu::dispatch {

struct Inferred {
  bool known = false;                                 // there is a meta kernel
  std::vector<graph::Layout> results;                 // of all returned tensors, lists flattened
  std::vector<int> list_sizes;                        // of each return: -1 for a tensor, else a list's length
  std::vector<std::optional<graph::Layout>> resized;  // of each written tensor: its new sizes, if they change
};

// Calls the op on tensors without data that look like `values`. Throws what PyTorch says is wrong with the call.
// `in_written` says that the results are the written tensors themselves.
Inferred infer(const c10::OperatorHandle& handle, c10::ArrayRef<c10::IValue> values, const std::vector<int>& written,
               bool in_written);

}  // namespace tpu::dispatch
