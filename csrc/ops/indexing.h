// Reading and writing by index.
#pragma once

#include "ops/promote.h"

namespace tpu::ops {

// Whole slices of x along dim at the positions of a vector, or of a scalar index.
Value take_slices(Value x, int64_t dim, Value index);
// For each element of index (as large as x in all other dims, or smaller) the element of x there along dim.
Value pick_elements(Value x, int64_t dim, Value index);
// x with the elements of source added at index along dim.
Value add_elements(Value x, int64_t dim, Value index, Value source);

}  // namespace tpu::ops
