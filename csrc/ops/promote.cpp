// Type promotion between values.
#include "ops/promote.h"

#include <algorithm>

#include "base/error.h"

namespace tpu::ops {
namespace {

int category(DType t) { return t == DType::Pred ? 0 : is_integer(t) ? 1 : is_float(t) ? 2 : 3; }

DType promote_integers(DType a, DType b) {
  if (is_unsigned(a) == is_unsigned(b)) return element_size(a) >= element_size(b) ? a : b;
  const DType u = is_unsigned(a) ? a : b, s = is_unsigned(a) ? b : a;
  if (element_size(s) > element_size(u)) return s;
  switch (element_size(u)) {
    case 1:
      return DType::I16;
    case 2:
      return DType::I32;
    default:
      return DType::I64;
  }
}

DType promote_floats(DType a, DType b) {
  if (element_size(a) != element_size(b)) return element_size(a) > element_size(b) ? a : b;
  return DType::F32;  // two different narrow floats of one size
}

// 0 for a Python number, 1 for a 0-d value, 2 for one with dims: a higher priority decides within a category.
int priority(const Value& v) { return v.number ? 0 : v.rank() == 0 ? 1 : 2; }

}  // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (category(a) > category(b)) std::swap(a, b);
  if (category(a) == 3) return DType::C128;
  if (category(b) == 3) return a == DType::F64 ? DType::C128 : b;
  if (category(a) != category(b)) return b;
  return category(a) == 1 ? promote_integers(a, b) : promote_floats(a, b);
}

DType result_type(const Values& all) {
  std::optional<DType> by_priority[3];
  for (const Value& v : all) {
    DType t = v.dtype();
    const DType normal = v.builder->options().default_float;
    if (v.number && is_float(t)) t = normal;
    if (v.number && is_complex(t)) t = normal == DType::F64 ? DType::C128 : DType::C64;
    auto& slot = by_priority[priority(v)];
    slot = slot ? promote(*slot, t) : t;
  }
  std::optional<DType> result;
  for (int p = 2; p >= 0; --p) {
    if (!by_priority[p]) continue;
    if (!result) {
      result = by_priority[p];
    } else if (category(*by_priority[p]) > category(*result)) {
      // A complex number beside floats keeps their width: float64 with 1j is complex128.
      result = category(*result) == 2 ? promote(*by_priority[p], *result) : *by_priority[p];
    }
  }
  return *result;
}

DType result_type(const Value& a, const Value& b) { return result_type(Values{a, b}); }

Dims broadcast_dims(const Dims& a, const Dims& b) {
  Dims r(std::max(a.size(), b.size()));
  for (size_t i = 0; i < r.size(); ++i) {
    auto at = [&](const Dims& d) { return i + d.size() < r.size() ? 1 : d[i + d.size() - r.size()]; };
    const int64_t x = at(a), y = at(b);
    check(x == y || x == 1 || y == 1, Code::Internal, "broadcast: ", str(a), " and ", str(b), " do not fit");
    r[i] = x == 1 ? y : x;
  }
  return r;
}

std::pair<Value, Value> promote_to(DType t, Value a, Value b) {
  const Dims dims = broadcast_dims(a.dims(), b.dims());
  return {hlo::broadcast(hlo::convert(a, t), dims), hlo::broadcast(hlo::convert(b, t), dims)};
}

std::pair<Value, Value> promote(Value a, Value b) { return promote_to(result_type(a, b), a, b); }

Value to_float(Value x) {
  return is_float(x.dtype()) || is_complex(x.dtype()) ? x : hlo::convert(x, x.builder->options().default_float);
}

DType compute_type(DType t) { return is_narrow_float(t) ? DType::F32 : t; }
Value widen(Value x) { return hlo::convert(x, compute_type(x.dtype())); }

}  // namespace tpu::ops
