// Reading and writing by index: gather, scatter, embedding, advanced indexing, masks.
#include "ops/indexing.h"

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/scan.h"
#include "ops/tables.h"

namespace tpu::ops {

using namespace hlo;

namespace {

void require_range(Value index, int64_t size, bool negative, const std::string& what) {
  if (index.count() == 0) return;
  Value low = index >= like(index, negative ? -size : 0), high = index < like(index, size);
  index.builder->require(and_(low, high),
                         what + ": index out of range, expected indices below " + std::to_string(size));
}

Value with_last(Value index) {
  Dims dims = index.dims();
  dims.push_back(1);
  return reshape(index, dims);
}

Dims range_dims(int64_t from, int64_t to) {
  Dims dims(size_t(std::max<int64_t>(0, to - from)));
  std::iota(dims.begin(), dims.end(), from);
  return dims;
}

const Body kReplace = [](const Values& v) { return Values{v[1]}; };
const Body kAdd = [](const Values& v) { return Values{v[0].dtype() == DType::Pred ? or_(v[0], v[1]) : v[0] + v[1]}; };

}  // namespace

Value take_slices(Value x, int64_t dim, Value index) {
  Dims sizes = x.dims(), result = x.dims();
  sizes[size_t(dim)] = 1;
  result.erase(result.begin() + dim);
  result.insert(result.begin() + dim, index.dims().begin(), index.dims().end());
  if (element_count(result) == 0) return constant(*x.builder, 0.0, {x.dtype(), result});
  GatherDims d;
  for (int64_t i = 0; i < int64_t(result.size()); ++i)
    if (i < dim || i >= dim + index.rank()) d.offset.push_back(i);
  d.collapsed = {dim};
  d.start_map = {dim};
  d.index_vector = index.rank();
  return hlo::gather(x, with_last(index), d, sizes, result);
}

namespace {

Value index_select(Value x, int64_t dim, Value index) {
  if (x.rank() == 0) return x;
  dim = wrap(dim, x.rank());
  require_range(index, x.dim(dim), false, "index_select");
  return take_slices(x, dim, reshape(index, {index.count()}));
}

Value embedding(Value weight, Value index, Ignored, Ignored, Ignored) {
  require_range(index, weight.dim(0), false, "embedding");
  return take_slices(weight, 0, index);
}
Value embedding_dense_backward(Value gradient, Value index, int64_t rows, int64_t padding, bool scale) {
  const int64_t n = index.count(), width = gradient.dim(gradient.rank() - 1);
  Value g = reshape(widen(gradient), {n, width});
  Value at = reshape(convert(index, DType::I64), {n});
  if (scale) {
    Value same = broadcast_in_dim(at, {n, n}, {0}) == broadcast_in_dim(at, {n, n}, {1});
    Value count = sum(convert(same, g.dtype()), {1}, false);
    g = g / broadcast_in_dim(count, g.dims(), {0});
  }
  Value keep = at != like(at, padding);
  g = hlo::select(broadcast_in_dim(keep, g.dims(), {0}), g, like(g, 0));
  Value zero = constant(*g.builder, 0.0, {g.dtype(), {rows, width}});
  if (n == 0) return convert(zero, gradient.dtype());
  ScatterDims d{
      .window = {1}, .inserted = {0}, .operand_batch = {}, .index_batch = {}, .to_operand = {0}, .index_vector = 1};
  return convert(hlo::scatter(zero, with_last(at), g, d, kAdd), gradient.dtype());
}

// ---- gather and scatter: one index for each element

// For each element of `index` its full position in x: its own coordinates, but along dim the index.
Value coordinates(Value index, int64_t dim) {
  Values parts;
  Dims dims = index.dims();
  dims.push_back(1);
  for (int64_t d = 0; d < index.rank(); ++d)
    parts.push_back(
        reshape(d == dim ? convert(index, DType::I64) : iota(*index.builder, {DType::I64, index.dims()}, d), dims));
  return concatenate(parts, index.rank());
}
}  // namespace

Value pick_elements(Value x, int64_t dim, Value index) {
  GatherDims d;
  d.collapsed = range_dims(0, x.rank());
  d.start_map = d.collapsed;
  d.index_vector = x.rank();
  return hlo::gather(x, coordinates(index, dim), d, Dims(size_t(x.rank()), 1), index.dims());
}

namespace {

Value gather(Value x, int64_t dim, Value index, Ignored) {
  if (index.count() == 0) return constant(*x.builder, 0.0, {x.dtype(), index.dims()});
  if (x.rank() == 0) return broadcast(x, index.dims());
  dim = wrap(dim, x.rank());
  if (index.rank() == 0) index = reshape(index, {1});
  require_range(index, x.dim(dim), false, "gather");
  return pick_elements(x, dim, index);
}
Value scatter_elements(Value x, int64_t dim, Value index, Value source, const Body& body) {
  if (index.count() == 0) return x;
  const Dims given = x.dims();
  if (x.rank() == 0) x = reshape(x, {1});
  if (index.rank() == 0) index = reshape(index, {1});
  if (source.rank() == 0) source = reshape(source, {1});
  dim = wrap(dim, x.rank());
  require_range(index, x.dim(dim), false, "scatter");
  source = slice(source, Dims(size_t(source.rank()), 0), index.dims(), Dims(size_t(source.rank()), 1));
  ScatterDims d;
  d.inserted = range_dims(0, x.rank());
  d.to_operand = d.inserted;
  d.index_vector = x.rank();
  return reshape(hlo::scatter(x, coordinates(index, dim), source, d, body), given);
}

}  // namespace

Value add_elements(Value x, int64_t dim, Value index, Value source) {
  return scatter_elements(x, dim, index, source, kAdd);
}

namespace {

Value scatter_source(Value x, int64_t dim, Value index, Value source) {
  return scatter_elements(x, dim, index, source, kReplace);
}
Value scatter_value(Value x, int64_t dim, Value index, Value value) {
  return scatter_elements(x, dim, index, broadcast(convert(reshape(value, {}), x.dtype()), index.dims()), kReplace);
}
// Sums in the compute type, as many small additions in a narrow one lose too much.
Value scatter_add(Value x, int64_t dim, Value index, Value source) {
  return convert(scatter_elements(widen(x), dim, index, widen(source), kAdd), x.dtype());
}
Body reduction_body(const std::string& how) {
  if (how == "add" || how == "sum" || how == "mean") return kAdd;
  if (how == "multiply" || how == "prod")
    return [](const Values& v) { return Values{v[0].dtype() == DType::Pred ? and_(v[0], v[1]) : v[0] * v[1]}; };
  if (how == "amax") return [](const Values& v) { return Values{maximum(v[0], v[1])}; };
  return [](const Values& v) { return Values{minimum(v[0], v[1])}; };
}
Value scatter_source_reduce(Value x, int64_t dim, Value index, Value source, std::string how) {
  return convert(scatter_elements(widen(x), dim, index, widen(source), reduction_body(how)), x.dtype());
}
Value scatter_value_reduce(Value x, int64_t dim, Value index, Value value, std::string how) {
  return scatter_source_reduce(x, dim, index, broadcast(convert(reshape(value, {}), x.dtype()), index.dims()), how);
}

// What a reduction starts from where the old contents don't count.
Value neutral(Builder& b, DType t, const std::string& how) {
  if (how == "prod" || how == "multiply") return constant(b, 1.0, {t, {}});
  if (how == "amax") return lowest(b, t);
  if (how == "amin") return highest(b, t);
  return constant(b, 0.0, {t, {}});
}
Value whole_mean(Value total, Value count) {
  Value divisor = maximum(count, like(count, 1));
  return is_float(total.dtype()) ? total / convert(divisor, total.dtype())
                                 : floor_divide(total, convert(divisor, total.dtype()));
}
Value scatter_reduce(Value x, int64_t dim, Value index, Value source, std::string how, bool include_self) {
  Value old = widen(x), src = widen(source);
  Value none = like(convert(x, DType::I64), 0);
  Value ones = like(convert(src, DType::I64), 1);
  Value hits = scatter_elements(none, dim, index, ones, kAdd);
  Value start =
      include_self ? old : hlo::select(hits > none, broadcast(neutral(*x.builder, old.dtype(), how), old.dims()), old);
  Value r = scatter_elements(start, dim, index, src, reduction_body(how));
  if (how == "mean") r = whole_mean(r, include_self ? hits + 1.0 : hits);
  return convert(r, x.dtype());
}

// ---- whole slices along one dim

Value slices_updated(Value x, int64_t dim, Value index, Value source, const Body& body, bool replaces) {
  const Dims given = x.dims();
  if (x.rank() == 0) x = reshape(x, {1});
  index = reshape(index, {index.count()});
  dim = wrap(dim, x.rank());
  if (index.count() == 0 || x.count() == 0) return reshape(x, given);
  require_range(index, x.dim(dim), false, "index");
  Dims source_dims = x.dims();
  source_dims[size_t(dim)] = index.count();
  source = reshape(source, source_dims);
  if (replaces && index.count() == 1) {
    Values start;
    for (int64_t d = 0; d < x.rank(); ++d)
      start.push_back(d == dim ? reshape(convert(index, DType::I64), {})
                               : constant(*x.builder, int64_t{0}, {DType::I64, {}}));
    return reshape(dynamic_update_slice(x, source, start), given);
  }
  ScatterDims s;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != dim) s.window.push_back(d);
  s.inserted = {dim};
  s.to_operand = {dim};
  s.index_vector = 1;
  // Scatter wants the indexed dim where the index has it: first, last or between the window's dims.
  return reshape(hlo::scatter(x, with_last(index), source, s, body), given);
}
Value index_copy(Value x, int64_t dim, Value index, Value source) {
  return slices_updated(x, dim, index, source, kReplace, true);
}
Value index_add(Value x, int64_t dim, Value index, Value source, Value alpha) {
  Value s = widen(convert(source, x.dtype()));
  s = s.dtype() == DType::Pred ? and_(s, fit(alpha, s)) : s * fit(alpha, s);
  return convert(slices_updated(widen(x), dim, index, s, kAdd, false), x.dtype());
}
Value index_fill(Value x, int64_t dim, Value index, Value value) {
  const Dims given = x.dims();
  Value v = x.rank() == 0 ? reshape(x, {1}) : x;
  dim = wrap(dim, v.rank());
  index = reshape(index, {index.count()});
  // Negative positions count from the end.
  index = hlo::select(index < like(index, 0), index + like(index, v.dim(dim)), index);
  Dims dims = v.dims();
  dims[size_t(dim)] = index.count();
  Value source = broadcast(convert(reshape(value, {}), x.dtype()), dims);
  return reshape(slices_updated(v, dim, index, source, kReplace, true), given);
}
Value index_reduce(Value x, int64_t dim, Value index, Value source, std::string how, bool include_self) {
  Value old = widen(x), src = widen(source);
  Value none = like(convert(x, DType::I64), 0), ones = like(convert(src, DType::I64), 1);
  Value hits = slices_updated(none, dim, index, ones, kAdd, false);
  Value start =
      include_self ? old : hlo::select(hits > none, broadcast(neutral(*x.builder, old.dtype(), how), old.dims()), old);
  Value r = slices_updated(start, dim, index, src, reduction_body(how), false);
  if (how == "mean") r = whole_mean(r, include_self ? hits + 1.0 : hits);
  return convert(r, x.dtype());
}

// ---- advanced indexing

struct Advanced {
  Dims dims;          // of x that are indexed, in order
  Dims index_dims;    // what the indices broadcast to
  Value positions;    // [index_dims..., number of indexed dims]
  int64_t where = 0;  // where index_dims stand in the result
};

Advanced advanced(const Value& x, const OptionalValues& indices) {
  Advanced a;
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i]) {
      a.dims.push_back(int64_t(i));
      a.index_dims = broadcast_dims(a.index_dims, indices[i]->dims());
    }
  bool adjacent = true;
  for (size_t i = 1; i < a.dims.size(); ++i) adjacent = adjacent && a.dims[i] == a.dims[i - 1] + 1;
  a.where = adjacent && !a.dims.empty() ? a.dims[0] : 0;
  Dims single = a.index_dims;
  single.push_back(1);
  Values parts;
  for (int64_t d : a.dims) {
    Value i = convert(*indices[size_t(d)], DType::I64);
    require_range(i, x.dim(d), true, "index");
    i = hlo::select(i < like(i, 0), i + like(i, x.dim(d)), i);
    parts.push_back(reshape(broadcast(i, a.index_dims), single));
  }
  a.positions = concatenate(parts, int64_t(a.index_dims.size()));
  return a;
}
// The dims of a result: those of the indices at their place among the ones of x that are left.
Dims indexed_dims(const Value& x, const Advanced& a) {
  Dims rest;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (std::find(a.dims.begin(), a.dims.end(), d) == a.dims.end()) rest.push_back(x.dim(d));
  rest.insert(rest.begin() + a.where, a.index_dims.begin(), a.index_dims.end());
  return rest;
}
Value index(Value x, OptionalValues indices) {
  const Advanced a = advanced(x, indices);
  const Dims result = indexed_dims(x, a);
  if (element_count(result) == 0) return constant(*x.builder, 0.0, {x.dtype(), result});
  GatherDims d;
  Dims sizes = x.dims();
  for (int64_t i : a.dims) sizes[size_t(i)] = 1;
  const auto k = int64_t(a.index_dims.size());
  for (int64_t i = 0; i < int64_t(result.size()); ++i)
    if (i < a.where || i >= a.where + k) d.offset.push_back(i);
  d.collapsed = a.dims;
  d.start_map = a.dims;
  d.index_vector = k;
  return hlo::gather(x, a.positions, d, sizes, result);
}
Value index_put(Value x, OptionalValues indices, Value values, bool accumulate) {
  const Advanced a = advanced(x, indices);
  const Dims dims = indexed_dims(x, a);
  if (element_count(dims) == 0 || x.count() == 0) return x;
  Value v = broadcast(convert(values, x.dtype()), dims);
  const auto k = int64_t(a.index_dims.size());
  const bool wide = accumulate && is_narrow_float(x.dtype());
  if (!accumulate && element_count(a.index_dims) == 1) {
    // One place: a slice is overwritten.
    Values start;
    for (int64_t d = 0; d < x.rank(); ++d) {
      auto at = std::find(a.dims.begin(), a.dims.end(), d);
      Value flat = reshape(a.positions, {int64_t(a.dims.size())});
      start.push_back(at == a.dims.end() ? constant(*x.builder, int64_t{0}, {DType::I64, {}})
                                         : reshape(slice(flat, 0, at - a.dims.begin(), at - a.dims.begin() + 1), {}));
    }
    Dims sizes = x.dims();
    for (int64_t d : a.dims) sizes[size_t(d)] = 1;
    return dynamic_update_slice(x, reshape(v, sizes), start);
  }
  ScatterDims s;
  for (int64_t i = 0; i < int64_t(dims.size()); ++i)
    if (i < a.where || i >= a.where + k) s.window.push_back(i);
  s.inserted = a.dims;
  s.to_operand = a.dims;
  s.index_vector = k;
  Value base = wide ? widen(x) : x;
  return convert(hlo::scatter(base, a.positions, convert(v, base.dtype()), s, accumulate ? kAdd : kReplace), x.dtype());
}
Value index_put_impl(Value x, OptionalValues indices, Value values, bool accumulate, Ignored) {
  return index_put(x, indices, values, accumulate);
}

Value take(Value x, Value index) {
  Value flat = reshape(x, {x.count()});
  require_range(index, x.count(), true, "take");
  Value i = hlo::select(index < like(index, 0), index + like(index, x.count()), index);
  return index.count() == 0 ? constant(*x.builder, 0.0, {x.dtype(), index.dims()}) : take_slices(flat, 0, i);
}
Value put(Value x, Value index, Value source, bool accumulate) {
  Value flat = reshape(x, {x.count()});
  const int64_t n = index.count();
  if (n == 0) return x;
  Value i = reshape(index, {n});
  i = hlo::select(i < like(i, 0), i + like(i, x.count()), i);
  return reshape(scatter_elements(flat, 0, i, reshape(source, {n}), accumulate ? kAdd : kReplace), x.dims());
}

// ---- masks

Value masked_fill(Value x, Value mask, Value value) {
  const Dims dims = broadcast_dims(x.dims(), mask.dims());
  Value v = broadcast(convert(reshape(value, {}), x.dtype()), dims);
  return hlo::select(broadcast(truth(mask), dims), v, broadcast(x, dims));
}
Value masked_scatter(Value x, Value mask, Value source) {
  const Dims dims = broadcast_dims(x.dims(), mask.dims());
  Value base = broadcast(x, dims);
  if (base.count() == 0 || source.count() == 0) return base;
  Value m = reshape(broadcast(truth(mask), dims), {element_count(dims)});
  Value nth = cumulative_sum(convert(m, DType::I32), 0) - 1.0;
  nth = maximum(nth, like(nth, 0));
  Value flat = reshape(source, {source.count()});
  Value picked = take_slices(flat, 0, minimum(nth, like(nth, source.count() - 1)));
  return reshape(hlo::select(m, picked, reshape(base, m.dims())), dims);
}

constexpr Row kRows[] = {
    {"aten::_index_put_impl", op<index_put_impl>},
    {"aten::_unsafe_index.Tensor", op<index>},
    {"aten::_unsafe_index_put", op<index_put>},
    {"aten::embedding", op<embedding>},
    {"aten::embedding_dense_backward", op<embedding_dense_backward>},
    {"aten::gather", op<gather>},
    {"aten::index.Tensor", op<index>},
    {"aten::index_add", op<index_add>},
    {"aten::index_copy", op<index_copy>},
    {"aten::index_fill.int_Scalar", op<index_fill>},
    {"aten::index_fill.int_Tensor", op<index_fill>},
    {"aten::index_put", op<index_put>},
    {"aten::index_reduce", op<index_reduce>},
    {"aten::index_select", op<index_select>},
    {"aten::masked_fill.Scalar", op<masked_fill>},
    {"aten::masked_fill.Tensor", op<masked_fill>},
    {"aten::masked_scatter", op<masked_scatter>},
    {"aten::put", op<put>},
    {"aten::scatter.reduce", op<scatter_source_reduce>},
    {"aten::scatter.src", op<scatter_source>},
    {"aten::scatter.value", op<scatter_value>},
    {"aten::scatter.value_reduce", op<scatter_value_reduce>},
    {"aten::scatter_add", op<scatter_add>},
    {"aten::scatter_reduce.two", op<scatter_reduce>},
    {"aten::take", op<take>},
};

}  // namespace

const Table kIndexing = kRows;

}  // namespace tpu::ops
