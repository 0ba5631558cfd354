// Running sums, products and extremes.
#include "ops/scan.h"

#include <cmath>

#include "base/error.h"
#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/tables.h"

namespace tpu::ops {

using namespace hlo;

Values scan(const Values& xs, const Values& starts, int64_t dim, const Body& combine) {
  Values now = xs;
  const int64_t n = xs[0].dim(dim);
  for (int64_t step = 1; step < n; step *= 2) {
    Values joined;
    for (size_t i = 0; i < now.size(); ++i) {
      Dims low(size_t(now[i].rank()), 0), high = low, none = low;
      low[size_t(dim)] = step;
      high[size_t(dim)] = -step;
      joined.push_back(pad(now[i], starts[i], low, high, none));
    }
    joined.insert(joined.end(), now.begin(), now.end());
    now = combine(joined);
  }
  return now;
}

Value cumulative_sum(Value x, int64_t dim) {
  return scan({x}, {scalar(x, 0)}, dim, [](const Values& v) { return Values{v[0] + v[1]}; })[0];
}

namespace {

DType sum_type(const Value& x, std::optional<DType> t) {
  return t ? *t : is_integer(x.dtype()) || x.dtype() == DType::Pred ? DType::I64 : x.dtype();
}
Value cumsum(Value x, int64_t dim, std::optional<DType> t) {
  const DType type = sum_type(x, t);
  if (x.rank() == 0) return convert(x, type);
  return convert(cumulative_sum(convert(x, compute_type(type)), wrap(dim, x.rank())), type);
}
Value cumprod(Value x, int64_t dim, std::optional<DType> t) {
  const DType type = sum_type(x, t);
  if (x.rank() == 0) return convert(x, type);
  Value v = convert(x, compute_type(type));
  v = scan({v}, {scalar(v, 1)}, wrap(dim, x.rank()), [](const Values& p) { return Values{p[0] * p[1]}; })[0];
  return convert(v, type);
}
Value logcumsumexp(Value x, int64_t dim) {
  check(!is_complex(x.dtype()), Code::Unimplemented, "logcumsumexp of complex values");
  if (x.rank() == 0) return x;
  Value v = widen(x);
  v = scan({v}, {scalar(v, -HUGE_VAL)}, wrap(dim, x.rank()), [](const Values& p) {
    Value same = and_(p[0] == p[1], not_(is_finite(p[0])));
    Value m = maximum(p[0], p[1]);
    return Values{hlo::select(same, p[0], m + log1p(exponential(negate(abs(p[0] - p[1])))))};
  })[0];
  return convert(v, x.dtype());
}

// {extreme so far, where it was}; the latest of equals, and NaN once met.
std::pair<Value, Value> running_extreme(Value x, int64_t dim, bool largest) {
  const DType given = x.dtype();
  if (x.rank() == 0) return {x, constant(*x.builder, int64_t{0}, {DType::I64, {}})};
  dim = wrap(dim, x.rank());
  if (given == DType::Pred) x = convert(x, DType::I32);
  Builder& b = *x.builder;
  Value position = iota(b, {DType::I64, x.dims()}, dim);
  const Values starts{largest ? lowest(b, x.dtype()) : highest(b, x.dtype()),
                      constant(b, int64_t{-1}, {DType::I64, {}})};
  Values r = scan({x, position}, starts, dim, [largest](const Values& v) {
    Value later = largest ? v[2] >= v[0] : v[2] <= v[0];
    if (is_float(v[0].dtype())) later = or_(is_nan(v[2]), and_(later, not_(is_nan(v[0]))));
    later = or_(later, v[1] < like(v[1], 0));
    return Values{hlo::select(later, v[2], v[0]), hlo::select(later, v[3], v[1])};
  });
  return {convert(r[0], given), r[1]};
}
std::pair<Value, Value> cummax(Value x, int64_t dim) { return running_extreme(x, dim, true); }
std::pair<Value, Value> cummin(Value x, int64_t dim) { return running_extreme(x, dim, false); }

constexpr Row kRows[] = {
    {"aten::cummax", op<cummax>},
    {"aten::cummin", op<cummin>},
    {"aten::cumprod", op<cumprod>},
    {"aten::cumsum", op<cumsum>},
    {"aten::logcumsumexp", op<logcumsumexp>},
};

}  // namespace

const Table kScan = kRows;

}  // namespace tpu::ops
