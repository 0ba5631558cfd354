// Running reductions along a dim.
#pragma once

#include "ops/promote.h"

namespace tpu::ops {

// Inclusive scan in log2(n) steps: combine(earlier, later) joins several arrays at once; `starts` are its neutral
// elements.
Values scan(const Values& xs, const Values& starts, int64_t dim, const hlo::Body& combine);
Value cumulative_sum(Value x, int64_t dim);

}  // namespace tpu::ops
