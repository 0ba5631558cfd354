// PyTorch's type promotion and broadcasting between values, and the dtypes in which ops compute.
#pragma once

#include <utility>

#include "ops/ops.h"

namespace tpu::ops {

// The dtype that holds both, as torch.promote_types.
DType promote(DType a, DType b);
// The dtype of a result, where numbers and 0-d values widen the other side only by category: torch.result_type.
DType result_type(const Value& a, const Value& b);
DType result_type(const Values& all);
// The dims that both broadcast to.
Dims broadcast_dims(const Dims& a, const Dims& b);

// Both in their result dtype and their common dims.
std::pair<Value, Value> promote(Value a, Value b);
// Both in dtype t and their common dims.
std::pair<Value, Value> promote_to(DType t, Value a, Value b);

// Bool and integers become the default float; floats and complex stay.
Value to_float(Value x);
// The dtype in which arithmetic on t is done: float32 for narrower floats, else t.
DType compute_type(DType t);
// x in its compute type; pair with convert(y, x.dtype()) of the original at the end.
Value widen(Value x);

// Applies F to x in its compute type and rounds once. Integers stay integers.
template <auto F>
Value unary(Value x) {
  return hlo::convert(F(widen(x)), x.dtype());
}
// The same after integers became floats: exp, sin and their kind.
template <auto F>
Value float_unary(Value x) {
  x = to_float(x);
  return hlo::convert(F(widen(x)), x.dtype());
}
// Promotes both, computes in the compute type, rounds once to the result dtype.
template <auto F>
Value binary(Value x, Value y) {
  const DType t = result_type(x, y);
  auto [a, b] = promote_to(compute_type(t), x, y);
  return hlo::convert(F(a, b), t);
}

}  // namespace tpu::ops
