// Sorting, and what follows from it.
#include "ops/sorting.h"

#include <limits>

#include "base/error.h"
#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/tables.h"

namespace tpu::ops {

using namespace hlo;

std::pair<Value, Value> sorted(Value x, int64_t dim, bool descending, bool stable) {
  if (x.rank() == 0) return {x, constant(*x.builder, int64_t{0}, {DType::I64, {}})};
  const DType given = x.dtype();
  if (given == DType::Pred) x = convert(x, DType::U8);
  Value position = iota(*x.builder, {DType::I32, x.dims()}, dim);
  Values r = sort({x, position}, dim, stable, [descending](const Values& v) {
    Value a = descending ? v[1] : v[0], b = descending ? v[0] : v[1];
    Value less = a < b;
    if (is_float(a.dtype())) less = or_(less, and_(is_nan(b), not_(is_nan(a))));
    return Values{less};
  });
  return {convert(r[0], given), convert(r[1], DType::I64)};
}

namespace {

std::pair<Value, Value> sort_op(Value x, int64_t dim, bool descending) {
  return sorted(x, wrap(dim, x.rank()), descending);
}
std::pair<Value, Value> sort_stable(Value x, std::optional<bool>, int64_t dim, bool descending) {
  return sort_op(x, dim, descending);
}
std::pair<Value, Value> topk(Value x, int64_t k, int64_t dim, bool largest, Ignored) {
  if (x.rank() == 0) return sorted(x, 0, largest);
  dim = wrap(dim, x.rank());
  if (k == 1 && x.dim(dim) > 0) return extreme(x, dim, true, largest);
  auto [values, positions] = sorted(x, dim, largest);
  return {slice(values, dim, 0, k), slice(positions, dim, 0, k)};
}
std::pair<Value, Value> kthvalue(Value x, int64_t k, int64_t dim, bool keep) {
  if (x.rank() == 0) return sorted(x, 0, false);
  dim = wrap(dim, x.rank());
  auto [values, positions] = sorted(x, dim, false);
  auto pick = [&](Value v) {
    v = slice(v, dim, k - 1, k);
    return keep ? v : reshape(v, [&] {
      Dims d = v.dims();
      d.erase(d.begin() + dim);
      return d;
    }());
  };
  return {pick(values), pick(positions)};
}

// Elements along the last dim of `v` at `at`, both with equal leading dims; at has size one there.
Value pick_last(Value v, Value at) {
  Value position = iota(*v.builder, {DType::I64, v.dims()}, v.rank() - 1);
  Value here = position == broadcast(at, v.dims());
  Value kept = v.dtype() == DType::Pred ? and_(here, v) : hlo::select(here, v, like(v, 0));
  return keep_dims(reduce(kept, v.dtype() == DType::Pred ? "or" : "add", scalar(kept, 0), {v.rank() - 1}), v,
                   {v.rank() - 1}, true);
}

// The lower of the two middle elements; of rows with NaN the NaN, or, ignoring them, of the others.
std::pair<Value, Value> median_last(Value x, bool ignore_nan) {
  const int64_t last = x.rank() - 1, n = x.dim(last);
  auto [values, positions] = sorted(x, last, false);
  Value numbers = sum(convert(not_(is_nan(x)), DType::I64), {last}, true);
  Value at = is_float(x.dtype()) && ignore_nan ? (maximum(numbers, like(numbers, 1)) - 1.0) / hlo::like(numbers, 2)
                                               : like(numbers, (n - 1) / 2);
  // The first NaN follows the numbers.
  if (is_float(x.dtype()) && !ignore_nan) at = hlo::select(numbers < like(numbers, n), numbers, at);
  Value kept = values;
  if (is_float(x.dtype())) {
    // A sum over picked elements must not meet a NaN elsewhere.
    Value position = iota(*x.builder, {DType::I64, x.dims()}, last);
    Value here = position == broadcast(at, x.dims());
    kept = hlo::select(here, values, like(values, 0));
  }
  return {pick_last(kept, at), pick_last(positions, at)};
}
std::pair<Value, Value> median_along(Value x, int64_t dim, bool keep, bool ignore_nan) {
  if (x.rank() == 0) return {x, constant(*x.builder, int64_t{0}, {DType::I64, {}})};
  dim = wrap(dim, x.rank());
  Dims to_last, back;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != dim) to_last.push_back(d);
  to_last.push_back(dim);
  auto [v, p] = median_last(transpose(x, to_last), ignore_nan);
  Dims sizes = x.dims();
  if (keep) {
    sizes[size_t(dim)] = 1;
  } else {
    sizes.erase(sizes.begin() + dim);
  }
  return {reshape(v, sizes), reshape(p, sizes)};
}
std::pair<Value, Value> median_dim(Value x, int64_t dim, bool keep) { return median_along(x, dim, keep, false); }
std::pair<Value, Value> nanmedian_dim(Value x, int64_t dim, bool keep) { return median_along(x, dim, keep, true); }
Value median_all(Value x) {
  if (x.count() == 0) return constant(*x.builder, std::numeric_limits<double>::quiet_NaN(), {x.dtype(), {}});
  return median_along(reshape(x, {x.count()}), 0, false, false).first;
}
Value nanmedian_all(Value x) {
  if (x.count() == 0) return constant(*x.builder, std::numeric_limits<double>::quiet_NaN(), {x.dtype(), {}});
  return median_along(reshape(x, {x.count()}), 0, false, true).first;
}

// How many elements of each sorted row lie before the value: all pairs at once.
Value search(Value rows, Value values, bool right, DType t) {
  const DType c = promote(rows.dtype(), values.dtype());
  Value r = convert(rows, c), v = convert(values, c);
  const int64_t n = rows.dim(rows.rank() - 1);
  Dims dims = v.dims();
  dims.push_back(n);
  Dims row_positions, value_positions;
  for (int64_t d = 0; d < v.rank(); ++d) value_positions.push_back(d);
  if (rows.rank() == 1) {
    row_positions = {v.rank()};
  } else {
    for (int64_t d = 0; d + 1 < rows.rank(); ++d) row_positions.push_back(d);
    row_positions.push_back(v.rank());
  }
  Value a = broadcast_in_dim(r, dims, row_positions), b = broadcast_in_dim(v, dims, value_positions);
  Value before = right ? not_(a > b) : a < b;
  if (is_float(c)) before = right ? or_(before, is_nan(b)) : or_(before, and_(is_nan(b), not_(is_nan(a))));
  if (is_float(c) && right) before = and_(before, or_(not_(is_nan(a)), is_nan(b)));
  return convert(sum(convert(before, DType::I64), {v.rank()}, false), t);
}
Value bucketize(Value x, Value boundaries, bool out_int32, bool right) {
  return search(boundaries, x, right, out_int32 ? DType::I32 : DType::I64);
}
Value bucketize_number(Value x, Value boundaries, bool out_int32, bool right) {
  return bucketize(x, boundaries, out_int32, right);
}
Value searchsorted(Value rows, Value values, bool out_int32, bool right, std::optional<std::string> side,
                   std::optional<Value> order) {
  check(!order, Code::Unimplemented, "searchsorted with a sorter");
  return search(rows, values, right || (side && *side == "right"), out_int32 ? DType::I32 : DType::I64);
}

constexpr Row kRows[] = {
    {"aten::bucketize.Scalar", op<bucketize_number>},
    {"aten::bucketize.Tensor", op<bucketize>},
    {"aten::kthvalue", op<kthvalue>},
    {"aten::median", op<median_all>},
    {"aten::median.dim", op<median_dim>},
    {"aten::nanmedian", op<nanmedian_all>},
    {"aten::nanmedian.dim", op<nanmedian_dim>},
    {"aten::searchsorted.Scalar", op<searchsorted>},
    {"aten::searchsorted.Tensor", op<searchsorted>},
    {"aten::sort", op<sort_op>},
    {"aten::sort.stable", op<sort_stable>},
    {"aten::topk", op<topk>},
};

}  // namespace

const Table kSorting = kRows;

}  // namespace tpu::ops
