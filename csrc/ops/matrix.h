// Products of matrices that other families compose.
#pragma once

#include "ops/promote.h"

namespace tpu::ops {

// [.., m, k] x [.., k, n] with equal leading dims; sums in the compute type, in the dtype of a.
Value matmul(Value a, Value b);
// The same with b given as [.., n, k].
Value matmul_transposed(Value a, Value b);
// Dim `dim` of x, of size `in`, contracted with a matrix [out, in]; or, transposed, of size `out` with its other dim.
Value matmul_along(Value x, int64_t dim, Value matrix, bool transposed);

}  // namespace tpu::ops
