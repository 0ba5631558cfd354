// Elementwise functions that several families share.
#include "ops/math.h"

#include <numeric>

namespace tpu::ops {

using namespace hlo;

Value is_nan(Value x) {
  return is_integer(x.dtype()) || x.dtype() == DType::Pred ? convert(like(x, 0), DType::Pred) : x != x;
}

Value any_element(Value x) {
  Dims all(size_t(x.rank()));
  std::iota(all.begin(), all.end(), 0);
  return reduce(x, "or", constant(*x.builder, int64_t{0}, {DType::Pred, {}}), all);
}

Value truth(Value x) { return convert(x, DType::Pred); }

Value fit(Value number, Value x) { return broadcast(convert(number, x.dtype()), x.dims()); }

Value select(Value condition, Value x, double y) { return hlo::select(condition, x, like(x, y)); }

Value all_true(Value x) { return convert(like(convert(x, DType::U8), 1), DType::Pred); }

namespace {

// XLA leaves division by zero and the overflow of the lowest integer by -1 open; neither may trap.
Value safe_divisor(Value y) { return hlo::select(y == like(y, 0), like(y, 1), y); }

}  // namespace

Value truncate(Value x) { return hlo::select(x < like(x, 0), ceil(x), floor(x)); }

Value trunc_divide(Value x, Value y) {
  if (is_float(x.dtype())) return truncate(x / y);
  Value q = x / safe_divisor(y);
  return hlo::select(y == like(y, 0), like(q, 0), q);
}

Value floor_remainder(Value x, Value y) {
  const bool integer = !is_float(x.dtype());
  Value r = remainder(x, integer ? safe_divisor(y) : y);
  if (is_unsigned(x.dtype())) return r;
  Value zero = like(r, 0);
  Value wrong_sign = and_(r != zero, (r < zero) != (y < zero));
  r = hlo::select(wrong_sign, r + y, r);
  return integer ? hlo::select(y == like(y, 0), zero, r) : r;
}

Value floor_divide(Value x, Value y) {
  if (is_float(x.dtype())) {
    // As PyTorch and Python: exact where x / y rounds up to a whole number.
    Value zero = like(x, 0), ratio = x / y, r = remainder(x, y);
    Value q = (x - r) / y;
    q = hlo::select(and_(r != zero, (r < zero) != (y < zero)), q - 1.0, q);
    Value f = floor(q);
    f = hlo::select(q - f > like(q, 0.5), f + 1.0, f);
    f = hlo::select(q == zero, ratio * 0.0, f);
    return hlo::select(y == zero, ratio, f);
  }
  Value q = trunc_divide(x, y);
  if (is_unsigned(x.dtype())) return q;
  Value zero = like(x, 0);
  Value inexact = and_(remainder(x, safe_divisor(y)) != zero, (x < zero) != (y < zero));
  return hlo::select(and_(inexact, y != zero), q - 1.0, q);
}

Value signum(Value x) {
  if (x.dtype() == DType::Pred || is_unsigned(x.dtype()))
    return x.dtype() == DType::Pred ? x : convert(x != like(x, 0), x.dtype());
  if (!is_float(x.dtype())) return sign(x);
  // Not sign(): that keeps NaN and the sign of a zero.
  Value zero = like(x, 0), one = like(x, 1);
  return hlo::select(x > zero, one, hlo::select(x < zero, negate(one), zero));
}

Value erf(Value x) { return chlo("erf", {x}); }
Value sigmoid(Value x) { return logistic(x); }
Value softplus(Value x) { return maximum(x, like(x, 0)) + log1p(exponential(negate(abs(x)))); }

}  // namespace tpu::ops
