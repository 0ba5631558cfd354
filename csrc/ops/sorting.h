// Sorting along a dim.
#pragma once

#include "ops/promote.h"

namespace tpu::ops {

// {sorted, where each came from}. NaN counts as the largest, as in PyTorch.
std::pair<Value, Value> sorted(Value x, int64_t dim, bool descending, bool stable = true);

}  // namespace tpu::ops
