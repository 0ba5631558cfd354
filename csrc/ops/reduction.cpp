// Reductions over dims.
#include "ops/reduction.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/math.h"
#include "ops/tables.h"

namespace tpu::ops {

using namespace hlo;

int64_t wrap(int64_t dim, int64_t rank) { return dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim; }

Dims axes(const Value& x, const std::optional<Dims>& dims) {
  Dims result;
  if (x.rank() == 0) return result;
  if (!dims || dims->empty()) {
    result.resize(size_t(x.rank()));
    std::iota(result.begin(), result.end(), 0);
    return result;
  }
  for (int64_t d : *dims) result.push_back(wrap(d, x.rank()));
  std::sort(result.begin(), result.end());
  return result;
}

Value keep_dims(Value reduced, const Value& x, const Dims& dims, bool keep) {
  if (!keep) return reduced;
  Dims sizes = x.dims();
  for (int64_t d : dims) sizes[size_t(d)] = 1;
  return reshape(reduced, sizes);
}

int64_t reduced_count(const Value& x, const Dims& dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= x.dim(d);
  return count;
}

Value sum(Value x, const Dims& dims, bool keep) {
  return keep_dims(reduce(x, "add", scalar(x, 0), dims), x, dims, keep);
}

Value mean(Value x, const Dims& dims, bool keep) { return sum(x, dims, keep) / double(reduced_count(x, dims)); }

Value amax(Value x, const Dims& dims, bool keep) {
  return keep_dims(reduce(x, x.dtype() == DType::Pred ? "or" : "maximum", lowest(*x.builder, x.dtype()), dims), x, dims,
                   keep);
}
Value amin(Value x, const Dims& dims, bool keep) {
  return keep_dims(reduce(x, x.dtype() == DType::Pred ? "and" : "minimum", highest(*x.builder, x.dtype()), dims), x,
                   dims, keep);
}
Value any(Value x, const Dims& dims, bool keep) {
  x = truth(x);
  return keep_dims(reduce(x, "or", lowest(*x.builder, DType::Pred), dims), x, dims, keep);
}
Value all(Value x, const Dims& dims, bool keep) {
  x = truth(x);
  return keep_dims(reduce(x, "and", highest(*x.builder, DType::Pred), dims), x, dims, keep);
}

std::pair<Value, Value> extreme(Value x, int64_t dim, bool keep, bool largest) {
  if (x.rank() == 0) return {x, constant(*x.builder, int64_t{0}, {DType::I64, {}})};
  const DType given = x.dtype();
  if (given == DType::Pred) x = convert(x, DType::I32);
  if (is_narrow_float(given)) x = convert(x, DType::F32);
  Builder& b = *x.builder;
  // Positions in 32 bits are twice as fast; no dim is that long.
  Value position = iota(b, {DType::I32, x.dims()}, dim);
  const Values inits{largest ? lowest(b, x.dtype()) : highest(b, x.dtype()), highest(b, DType::I32)};
  Values r = reduce(Values{x, position}, inits, {dim}, [largest](const Values& v) {
    Value better = largest ? v[0] > v[2] : v[0] < v[2];
    Value same = v[0] == v[2];
    if (is_float(v[0].dtype())) {
      Value nan0 = is_nan(v[0]), nan2 = is_nan(v[2]);
      better = or_(and_(nan0, not_(nan2)), and_(better, not_(nan2)));
      same = or_(same, and_(nan0, nan2));
    }
    Value first = or_(better, and_(same, v[1] < v[3]));
    return Values{hlo::select(first, v[0], v[2]), hlo::select(first, v[1], v[3])};
  });
  return {convert(keep_dims(r[0], x, {dim}, keep), given), convert(keep_dims(r[1], x, {dim}, keep), DType::I64)};
}

std::pair<Value, Value> variance(Value x, const Dims& dims, double correction, bool keep) {
  Value m = mean(x, dims, true);
  Value d = x - stretch(m, x);
  Value squares = is_complex(x.dtype()) ? real(d) * real(d) + imag(d) * imag(d) : d * d;
  const double divisor = std::max(double(reduced_count(x, dims)) - correction, 0.0);
  Value v = sum(squares, dims, keep);
  v = v / like(v, divisor);
  return {v, keep ? m : reshape(m, v.dims())};
}

namespace {

DType sum_type(const Value& x, std::optional<DType> t) {
  return t ? *t : is_integer(x.dtype()) || x.dtype() == DType::Pred ? DType::I64 : x.dtype();
}
// Reduces in the compute type of t, the dtype of the result.
template <auto F>
Value in_type(Value x, DType t, const Dims& dims, bool keep) {
  return convert(F(convert(x, compute_type(t)), dims, keep), t);
}

Value sum_dims(Value x, std::optional<Dims> dims, bool keep, std::optional<DType> t) {
  return in_type<sum>(x, sum_type(x, t), axes(x, dims), keep);
}
Value sum_all(Value x, std::optional<DType> t) { return sum_dims(x, {}, false, t); }
Value nansum(Value x, std::optional<Dims> dims, bool keep, std::optional<DType> t) {
  return sum_dims(select(not_(is_nan(x)), x, 0.0), dims, keep, t);
}
Value mean_dims(Value x, std::optional<Dims> dims, bool keep, std::optional<DType> t) {
  return in_type<mean>(x, t.value_or(x.dtype()), axes(x, dims), keep);
}
Value mean_all(Value x, std::optional<DType> t) { return mean_dims(x, {}, false, t); }
Value product(Value x, const Dims& dims, bool keep) {
  return keep_dims(reduce(x, "multiply", scalar(x, 1), dims), x, dims, keep);
}
Value prod_dim(Value x, int64_t dim, bool keep, std::optional<DType> t) {
  return in_type<product>(x, sum_type(x, t), axes(x, Dims{dim}), keep);
}
Value prod_all(Value x, std::optional<DType> t) { return in_type<product>(x, sum_type(x, t), axes(x, {}), false); }

Value amax_op(Value x, Dims dims, bool keep) { return amax(x, axes(x, dims), keep); }
Value amin_op(Value x, Dims dims, bool keep) { return amin(x, axes(x, dims), keep); }
Value max_all(Value x) { return amax(x, axes(x, {}), false); }
Value min_all(Value x) { return amin(x, axes(x, {}), false); }
std::pair<Value, Value> aminmax(Value x, std::optional<int64_t> dim, bool keep) {
  const Dims dims = dim ? axes(x, Dims{*dim}) : axes(x, {});
  return {amin(x, dims, keep), amax(x, dims, keep)};
}
std::pair<Value, Value> max_dim(Value x, int64_t dim, bool keep) { return extreme(x, wrap(dim, x.rank()), keep, true); }
std::pair<Value, Value> min_dim(Value x, int64_t dim, bool keep) {
  return extreme(x, wrap(dim, x.rank()), keep, false);
}
Value arg_extreme(Value x, std::optional<int64_t> dim, bool keep, bool largest) {
  if (dim) return extreme(x, wrap(*dim, x.rank()), keep, largest).second;
  Value flat = extreme(reshape(x, {x.count()}), 0, false, largest).second;
  return keep ? reshape(flat, Dims(size_t(x.rank()), 1)) : flat;
}
Value argmax(Value x, std::optional<int64_t> dim, bool keep) { return arg_extreme(x, dim, keep, true); }
Value argmin(Value x, std::optional<int64_t> dim, bool keep) { return arg_extreme(x, dim, keep, false); }

// all and any of uint8 stay uint8.
Value as_truth(Value r, const Value& x) { return x.dtype() == DType::U8 ? convert(r, DType::U8) : r; }
Value all_dim(Value x, int64_t dim, bool keep) { return as_truth(all(x, axes(x, Dims{dim}), keep), x); }
Value all_dims(Value x, std::optional<Dims> dims, bool keep) {
  return as_truth(all(x, dims && dims->empty() && x.rank() > 0 ? Dims{} : axes(x, dims), keep), x);
}
Value all_all(Value x) { return as_truth(all(x, axes(x, {}), false), x); }
Value any_dim(Value x, int64_t dim, bool keep) { return as_truth(any(x, axes(x, Dims{dim}), keep), x); }
Value any_dims(Value x, std::optional<Dims> dims, bool keep) {
  return as_truth(any(x, dims && dims->empty() && x.rank() > 0 ? Dims{} : axes(x, dims), keep), x);
}
Value any_all(Value x) { return as_truth(any(x, axes(x, {}), false), x); }

std::pair<Value, Value> var_mean(Value x, std::optional<Dims> dims, std::optional<Number> correction, bool keep) {
  auto [v, m] = variance(widen(x), axes(x, dims), correction ? correction->value() : 1, keep);
  return {convert(v, real_type(x.dtype())), convert(m, x.dtype())};
}
Value var(Value x, std::optional<Dims> dims, std::optional<Number> correction, bool keep) {
  return var_mean(x, dims, correction, keep).first;
}
std::pair<Value, Value> std_mean(Value x, std::optional<Dims> dims, std::optional<Number> correction, bool keep) {
  auto [v, m] = variance(widen(x), axes(x, dims), correction ? correction->value() : 1, keep);
  return {convert(sqrt(v), real_type(x.dtype())), convert(m, x.dtype())};
}
Value std_op(Value x, std::optional<Dims> dims, std::optional<Number> correction, bool keep) {
  return std_mean(x, dims, correction, keep).first;
}

// The p-norm of the absolute values of a wide float.
Value p_norm(Value x, double p, const Dims& dims, bool keep) {
  Value a = abs(x);
  if (p == HUGE_VAL) return amax(a, dims, keep);
  if (p == -HUGE_VAL) return amin(a, dims, keep);
  if (p == 0) return sum(convert(a != like(a, 0), a.dtype()), dims, keep);
  if (p == 1) return sum(a, dims, keep);
  if (p == 2) return sqrt(sum(a * a, dims, keep));
  Value s = sum(power(a, like(a, p)), dims, keep);
  return power(s, like(s, 1 / p));
}
Value vector_norm(Value x, Number p, std::optional<Dims> dims, bool keep, std::optional<DType> t) {
  const DType from = t ? *t : x.dtype();
  return convert(p_norm(convert(x, compute_type(from)), p.value(), axes(x, dims), keep), real_type(from));
}
Value norm_dims(Value x, std::optional<Number> p, Dims dims, bool keep) {
  return vector_norm(x, p.value_or(Number{.integer = 2}), dims, keep, std::nullopt);
}
Value norm_type(Value x, std::optional<Number> p, Dims dims, bool keep, DType t) {
  return vector_norm(x, p.value_or(Number{.integer = 2}), dims, keep, t);
}
Value norm_all(Value x, Number p) { return vector_norm(x, p, std::nullopt, false, std::nullopt); }

Value logsumexp(Value x, Dims dims, bool keep) {
  const Dims over = axes(x, dims);
  Value v = widen(to_float(x));
  check(!is_complex(v.dtype()), Code::Unimplemented, "logsumexp of complex values");
  Value m = amax(v, over, true);
  m = hlo::select(is_finite(m), m, like(m, 0));
  Value s = log(sum(exponential(v - stretch(m, v)), over, keep));
  return convert(s + reshape(m, s.dims()), to_float(x).dtype());
}
Value count_nonzero(Value x, Dims dims) { return sum(convert(truth(x), DType::I64), axes(x, dims), false); }

// Counts per bin of equal width between low and high, or between the extremes where both are equal.
Value histc(Value x, int64_t bins, Value low, Value high) {
  const DType t = x.dtype();
  Value v = convert(reshape(x, {x.count()}), is_float(t) ? compute_type(t) : DType::F64);
  Value a = reshape(convert(low, v.dtype()), {}), b = reshape(convert(high, v.dtype()), {});
  Value same = a == b;
  Value from = hlo::select(same, reduce(v, "minimum", highest(*v.builder, v.dtype()), {0}), a);
  Value to = hlo::select(same, reduce(v, "maximum", lowest(*v.builder, v.dtype()), {0}), b);
  Value flat = from == to;
  from = hlo::select(flat, from - 1.0, from);
  to = hlo::select(flat, to + 1.0, to);
  Value inside = and_(v >= broadcast(from, v.dims()), v <= broadcast(to, v.dims()));
  Value position = floor((v - broadcast(from, v.dims())) * double(bins) / broadcast(to - from, v.dims()));
  Value bin = minimum(convert(hlo::select(inside, position, like(v, -1)), DType::I32),
                      constant(*v.builder, bins - 1, {DType::I32, v.dims()}));
  Value one = broadcast_in_dim(bin, {v.count(), bins}, {0});
  Value hit = one == iota(*v.builder, one.type, 1);
  return convert(sum(convert(hit, is_float(t) ? compute_type(t) : DType::I64), {0}, false), t);
}

constexpr Row kRows[] = {
    {"aten::all", op<all_all>},
    {"aten::all.dim", op<all_dim>},
    {"aten::all.dims", op<all_dims>},
    {"aten::amax", op<amax_op>},
    {"aten::amin", op<amin_op>},
    {"aten::aminmax", op<aminmax>},
    {"aten::any", op<any_all>},
    {"aten::any.dim", op<any_dim>},
    {"aten::any.dims", op<any_dims>},
    {"aten::argmax", op<argmax>},
    {"aten::argmin", op<argmin>},
    {"aten::count_nonzero.dim_IntList", op<count_nonzero>},
    {"aten::histc", op<histc>},
    {"aten::linalg_vector_norm", op<vector_norm>},
    {"aten::logsumexp", op<logsumexp>},
    {"aten::max", op<max_all>},
    {"aten::max.dim", op<max_dim>},
    {"aten::mean", op<mean_all>},
    {"aten::mean.dim", op<mean_dims>},
    {"aten::min", op<min_all>},
    {"aten::min.dim", op<min_dim>},
    {"aten::nansum", op<nansum>},
    {"aten::norm.Scalar", op<norm_all>},
    {"aten::norm.ScalarOpt_dim", op<norm_dims>},
    {"aten::norm.ScalarOpt_dim_dtype", op<norm_type>},
    {"aten::prod", op<prod_all>},
    {"aten::prod.dim_int", op<prod_dim>},
    {"aten::std.correction", op<std_op>},
    {"aten::std_mean.correction", op<std_mean>},
    {"aten::sum", op<sum_all>},
    {"aten::sum.dim_IntList", op<sum_dims>},
    {"aten::var.correction", op<var>},
    {"aten::var_mean.correction", op<var_mean>},
};

}  // namespace

const Table kReduction = kRows;

}  // namespace tpu::ops
