// Elementwise functions that several families share.
#pragma once

#include "ops/promote.h"

namespace tpu::ops {

// Computes in float32 where x is narrower; one chlo op by its name.
template <const char* Name>
Value chlo_unary(Value x) {
  return hlo::chlo(Name, {x});
}

// F of two values as floats, in their compute type; rounds once.
template <auto F>
Value float_binary(Value x, Value y) {
  DType t = result_type(x, y);
  if (!is_float(t) && !is_complex(t)) t = x.builder->options().default_float;
  auto [a, b] = promote_to(compute_type(t), x, y);
  return hlo::convert(F(a, b), t);
}

Value is_nan(Value x);
// Whether any element of a Pred is true: 0-d.
Value any_element(Value x);
// Of a bool, integer or float: as PyTorch's truth.
Value truth(Value x);
// A number brought to x's dtype and dims.
Value fit(Value number, Value x);
// x where the condition holds, else the number y.
Value select(Value condition, Value x, double y);
// Integer division that floors, and its remainder with the divisor's sign; a divisor of zero gives zero.
Value floor_divide(Value x, Value y);
Value floor_remainder(Value x, Value y);
Value trunc_divide(Value x, Value y);
Value truncate(Value x);  // a float without its fraction
// -1, 0 or 1; 0 for NaN.
Value signum(Value x);
Value erf(Value x);
Value sigmoid(Value x);
Value softplus(Value x);  // log(1 + e^x) without overflow
Value all_true(Value x);  // Pred of x's dims

}  // namespace tpu::ops
