// Factories. They reach the device by their out= overload, whose out tensor says which dims and dtype are wanted.
#include "ops/math.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

// The dtype in which steps are counted: integers exactly, floats as wide as the CPU does.
DType counting(DType t) { return is_integer(t) || t == DType::Pred ? DType::I64 : t == DType::F64 ? t : DType::F64; }

Value ramp(Value start, Value step, Value out) {
  const DType c = is_complex(out.dtype()) ? out.dtype() : counting(out.dtype());
  Value i = convert(iota(*out.builder, {DType::I64, out.dims()}, 0), c);
  return convert(fit(start, i) + i * fit(step, i), out.dtype());
}
Value arange(Value start, Value, Value step, Value out) { return ramp(start, step, out); }
Value range(Value start, Value, Value step, Value out) { return ramp(start, step, out); }

Value linspace(Value start, Value end, int64_t steps, Value out) {
  if (out.count() == 0) return out;
  const DType c = is_complex(out.dtype()) ? out.dtype() : DType::F64;
  Value i = convert(iota(*out.builder, {DType::I64, out.dims()}, 0), c);
  Value a = fit(start, i), b = fit(end, i);
  if (steps == 1) return convert(a, out.dtype());
  Value step = (b - a) / double(steps - 1);
  // From both ends, so that the last is exact.
  Value from_end = b - (like(i, double(steps - 1)) - i) * step;
  Value index = iota(*out.builder, {DType::I64, out.dims()}, 0);
  return convert(hlo::select(index < like(index, steps / 2), a + i * step, from_end), out.dtype());
}
Value logspace(Value start, Value end, int64_t steps, double base, Value out) {
  Value wide = constant(*out.builder, 0.0, {is_complex(out.dtype()) ? out.dtype() : DType::F64, out.dims()});
  Value exponents = linspace(start, end, steps, wide);
  return convert(power(like(exponents, base), exponents), out.dtype());
}

Value eye(int64_t, Value out) {
  const Type t{DType::I64, out.dims()};
  return convert(iota(*out.builder, t, 0) == iota(*out.builder, t, 1), out.dtype());
}
Value eye_m(int64_t n, int64_t, Value out) { return eye(n, out); }

constexpr Row kRows[] = {
    {"aten::arange.start_out", op<arange>}, {"aten::eye.m_out", op<eye_m>},       {"aten::eye.out", op<eye>},
    {"aten::linspace.out", op<linspace>},   {"aten::logspace.out", op<logspace>}, {"aten::range.out", op<range>},
};

}  // namespace

const Table kCreation = kRows;

}  // namespace tpu::ops
