// Normalization layers, forward and backward, computed in float32 or wider.
#include <cmath>

#include "ops/indexing.h"
#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

using Maybe = std::optional<Value>;

Dims last_dims(const Value& x, size_t count) {
  Dims dims;
  for (int64_t d = x.rank() - int64_t(count); d < x.rank(); ++d) dims.push_back(d);
  return dims;
}
Dims first_dims(const Value& x, size_t count) {
  Dims dims;
  for (int64_t d = 0; d < x.rank() - int64_t(count); ++d) dims.push_back(d);
  return dims;
}
Value as(Value x, DType t) { return convert(x, t); }
// The statistics' dtype: wide for half types unless parameters are narrow too.
DType statistic_type(const Value& x) { return compute_type(x.dtype()); }

std::tuple<Value, Value, Value> layer_norm(Value given, Dims shape, Maybe weight, Maybe bias, Value eps) {
  Value x = widen(given);
  const Dims over = last_dims(x, shape.size());
  auto [v, m] = variance(x, over, 0, true);
  Value r = rsqrt(v + fit(eps, v));
  Value y = (x - stretch(m, x)) * stretch(r, x);
  if (weight) y = y * broadcast(as(*weight, x.dtype()), x.dims());
  if (bias) y = y + broadcast(as(*bias, x.dtype()), x.dims());
  // Saved statistics of half inputs are as wide as the meta kernel says: the input's own dtype on this device.
  return {convert(y, given.dtype()), m, r};
}
Values layer_norm_backward(Value gradient, Value given, Dims shape, Value mean_, Value rstd, Maybe weight, Maybe bias,
                           std::vector<bool> mask) {
  Value x = widen(given), g = widen(gradient);
  const Dims over = last_dims(x, shape.size()), others = first_dims(x, shape.size());
  Value r = stretch(as(rstd, x.dtype()), x);
  Value n = (x - stretch(as(mean_, x.dtype()), x)) * r;
  Value gw = weight ? g * broadcast(as(*weight, x.dtype()), x.dims()) : g;
  Value dx = r * (gw - stretch(mean(gw, over, true), gw) - n * stretch(mean(gw * n, over, true), n));
  Values result(3);
  if (mask[0]) result[0] = convert(dx, given.dtype());
  if (mask[1] && weight) result[1] = convert(reshape(sum(g * n, others, false), shape), weight->dtype());
  if (mask[2] && bias) result[2] = convert(reshape(sum(g, others, false), shape), bias->dtype());
  return result;
}

double machine_epsilon(DType t) { return t == DType::F64 ? 0x1p-52 : 0x1p-23; }
std::pair<Value, Value> rms_norm(Value given, Dims shape, Maybe weight, std::optional<double> eps) {
  Value x = widen(given);
  const Dims over = last_dims(x, shape.size());
  Value r = rsqrt(mean(x * x, over, true) + eps.value_or(machine_epsilon(x.dtype())));
  Value y = x * stretch(r, x);
  if (weight) y = y * broadcast(as(*weight, x.dtype()), x.dims());
  return {convert(y, given.dtype()), r};
}
Values rms_norm_backward(Value gradient, Value given, Dims shape, Value rstd, Maybe weight, std::vector<bool> mask) {
  Value x = widen(given), g = widen(gradient);
  const Dims over = last_dims(x, shape.size()), others = first_dims(x, shape.size());
  Value r = stretch(as(rstd, x.dtype()), x), n = x * r;
  Value gw = weight ? g * broadcast(as(*weight, x.dtype()), x.dims()) : g;
  Values result(2);
  if (mask[0]) result[0] = convert(r * (gw - n * stretch(mean(gw * n, over, true), n)), given.dtype());
  if (mask[1] && weight) result[1] = convert(reshape(sum(g * n, others, false), shape), weight->dtype());
  return result;
}

// ---- batch norm: statistics of each channel, which is dim 1

Dims all_but_channel(const Value& x) {
  Dims dims;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != 1) dims.push_back(d);
  return dims;
}
Value per_channel(Value v, const Value& x) { return broadcast_in_dim(convert(v, x.dtype()), x.dims(), {1}); }

struct BatchNorm {
  Value y, mean, rstd;
  Value running_mean, running_var;  // new ones, where training with statistics
};
BatchNorm normalize(Value given, Maybe weight, Maybe bias, Maybe running_mean, Maybe running_var, bool training,
                    Value momentum, Value eps) {
  Value x = widen(given);
  BatchNorm r;
  Value m, v;
  if (training) {
    std::tie(v, m) = variance(x, all_but_channel(x), 0, false);
    if (running_mean) {
      Value k = fit(momentum, m);
      const double n = double(reduced_count(x, all_but_channel(x)));
      r.running_mean = convert((1.0 - k) * as(*running_mean, x.dtype()) + k * m, running_mean->dtype());
      r.running_var =
          convert((1.0 - k) * as(*running_var, x.dtype()) + k * (v * (n / std::max(n - 1, 1.0))), running_var->dtype());
    }
  } else {
    m = as(*running_mean, x.dtype());
    v = as(*running_var, x.dtype());
  }
  r.mean = m;
  r.rstd = rsqrt(v + fit(eps, v));
  Value y = (x - per_channel(m, x)) * per_channel(r.rstd, x);
  if (weight) y = y * per_channel(*weight, x);
  if (bias) y = y + per_channel(*bias, x);
  r.y = convert(y, given.dtype());
  if (!training) r.mean = r.rstd = constant(*x.builder, 0.0, {x.dtype(), {0}});
  return r;
}
Values batch_norm(Value x, Maybe weight, Maybe bias, Maybe running_mean, Maybe running_var, bool training,
                  Value momentum, Value eps) {
  BatchNorm r = normalize(x, weight, bias, running_mean, running_var, training, momentum, eps);
  Values result{r.y, r.mean, r.rstd};
  if (training && running_mean) result.insert(result.end(), {r.running_mean, r.running_var});
  return result;
}
Values batch_norm_functional(Value x, Maybe weight, Maybe bias, Value running_mean, Value running_var, bool training,
                             Value momentum, Value eps) {
  BatchNorm r = normalize(x, weight, bias, running_mean, running_var, training, momentum, eps);
  return {r.y, r.mean, r.rstd, training ? r.running_mean : running_mean, training ? r.running_var : running_var};
}
Values batch_norm_no_stats(Value x, Maybe weight, Maybe bias, bool training, Value momentum, Value eps) {
  return batch_norm(x, weight, bias, std::nullopt, std::nullopt, training, momentum, eps);
}
Values batch_norm_backward(Value gradient, Value given, Maybe weight, Maybe running_mean, Maybe running_var,
                           Maybe saved_mean, Maybe saved_rstd, bool training, double eps, std::vector<bool> mask) {
  Value x = widen(given), g = widen(gradient);
  const Dims over = all_but_channel(x);
  Value m = as(training ? *saved_mean : *running_mean, x.dtype());
  Value r = training ? as(*saved_rstd, x.dtype()) : rsqrt(as(*running_var, x.dtype()) + eps);
  Value n = (x - per_channel(m, x)) * per_channel(r, x);
  Value scale = weight ? per_channel(*weight, x) * per_channel(r, x) : per_channel(r, x);
  Value sum_g = sum(g, over, false), sum_gn = sum(g * n, over, false);
  const double count = double(reduced_count(x, over));
  Values result(3);
  if (mask[0]) {
    Value dx = training ? scale * (g - per_channel(sum_g / count, x) - n * per_channel(sum_gn / count, x)) : scale * g;
    result[0] = convert(dx, given.dtype());
  }
  const DType t = weight ? weight->dtype() : statistic_type(given);
  if (mask[1]) result[1] = convert(sum_gn, t);
  if (mask[2]) result[2] = convert(sum_g, t);
  return result;
}

// The same ops under the names of a newer interface, with an empty reserve.
Values batch_norm_with_update(Value x, Maybe weight, Maybe bias, Value running_mean, Value running_var, Value momentum,
                              Value eps) {
  BatchNorm r = normalize(x, weight, bias, running_mean, running_var, true, momentum, eps);
  Value reserve = constant(*x.builder, int64_t{0}, {DType::U8, {0}});
  return {r.y, r.mean, r.rstd, reserve, r.running_mean, r.running_var};
}
Values batch_norm_backward_with_reserve(Value gradient, Value x, Value weight, Maybe running_mean, Maybe running_var,
                                        Maybe saved_mean, Maybe saved_rstd, bool update, double eps,
                                        std::vector<bool> mask, Ignored) {
  return batch_norm_backward(gradient, x, weight, running_mean, running_var, saved_mean, saved_rstd, update, eps, mask);
}

// ---- group norm: x as [n, groups, rest]

std::tuple<Value, Value, Value> group_norm(Value given, Maybe weight, Maybe bias, int64_t n, int64_t c, int64_t hw,
                                           int64_t groups, Value eps) {
  Value x = reshape(widen(given), {n, groups, c / groups * hw});
  auto [v, m] = variance(x, {2}, 0, false);
  Value r = rsqrt(v + fit(eps, v));
  Value y = (x - broadcast_in_dim(m, x.dims(), {0, 1})) * broadcast_in_dim(r, x.dims(), {0, 1});
  y = reshape(y, {n, c, hw});
  if (weight) y = y * broadcast_in_dim(as(*weight, x.dtype()), y.dims(), {1});
  if (bias) y = y + broadcast_in_dim(as(*bias, x.dtype()), y.dims(), {1});
  return {convert(reshape(y, given.dims()), given.dtype()), convert(m, given.dtype()), convert(r, given.dtype())};
}
Values group_norm_backward(Value gradient, Value given, Value mean_, Value rstd, Maybe weight, int64_t n, int64_t c,
                           int64_t hw, int64_t groups, std::vector<bool> mask) {
  const Dims by_group{n, groups, c / groups * hw}, by_channel{n, c, hw};
  Value x = reshape(widen(given), by_group), g = reshape(widen(gradient), by_channel);
  Value r = broadcast_in_dim(as(rstd, x.dtype()), by_group, {0, 1});
  Value norm = (x - broadcast_in_dim(as(mean_, x.dtype()), by_group, {0, 1})) * r;
  Value gw = weight ? g * broadcast_in_dim(as(*weight, x.dtype()), by_channel, {1}) : g;
  gw = reshape(gw, by_group);
  Values result(3);
  if (mask[0]) {
    Value dx = r * (gw - stretch(mean(gw, {2}, true), gw) - norm * stretch(mean(gw * norm, {2}, true), gw));
    result[0] = convert(reshape(dx, given.dims()), given.dtype());
  }
  const DType t = weight ? weight->dtype() : given.dtype();
  if (mask[1]) result[1] = convert(sum(g * reshape(norm, by_channel), {0, 2}, false), t);
  if (mask[2]) result[2] = convert(sum(g, {0, 2}, false), t);
  return result;
}

// ---- weights as direction and length

Dims all_but(const Value& x, int64_t dim) {
  Dims dims;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != wrap(dim, x.rank())) dims.push_back(d);
  return dims;
}
std::pair<Value, Value> weight_norm(Value v, Value g, int64_t dim) {
  Value wide = widen(v);
  Value norm = sqrt(sum(wide * wide, all_but(v, dim), true));
  Value w = wide * stretch(as(g, wide.dtype()) / norm, wide);
  return {convert(w, v.dtype()), norm};
}
std::pair<Value, Value> weight_norm_backward(Value gradient, Value v, Value g, Value norms, int64_t dim) {
  Value gw = widen(gradient), wide = widen(v), n = as(norms, wide.dtype());
  Value along = sum(gw * wide, all_but(v, dim), true);
  Value dg = along / n;
  Value dv = stretch(as(g, wide.dtype()) / n, wide) * (gw - wide * stretch(along / (n * n), wide));
  return {convert(dv, v.dtype()), convert(dg, g.dtype())};
}

// ---- slices no longer than a limit

// Of each slice along the dims left: what it is to be multiplied with. Slices within the limit stay as they are.
Value shrink(Value x, double p, const Dims& over, Value limit) {
  Value a = abs(x), norm;
  if (p == 2) {
    norm = sqrt(sum(a * a, over, true));
  } else if (p == 1) {
    norm = sum(a, over, true);
  } else if (std::isinf(p)) {
    norm = amax(a, over, true);
  } else {
    Value total = sum(power(a, like(a, p)), over, true);
    norm = power(total, like(total, 1 / p));
  }
  Value most = fit(limit, norm);
  return hlo::select(norm > most, most / (norm + 1e-7), like(norm, 1));
}
Value renorm(Value given, Number p, int64_t dim, Value limit) {
  Value x = widen(given);
  if (x.count() == 0) return given;
  Value factor = shrink(x, p.value(), all_but(x, dim), limit);
  return convert(x * stretch(convert(factor, x.dtype()), x), given.dtype());
}
// Rows that are looked up are brought within the limit before.
Value embedding_renorm(Value table, Value index, Value limit, double p) {
  if (index.count() == 0 || table.count() == 0) return table;
  Value at = reshape(index, {index.count()});
  Value rows = widen(take_slices(table, 0, at));
  Value shorter = convert(rows * stretch(shrink(rows, p, {1}, limit), rows), table.dtype());
  const ScatterDims d{
      .window = {1}, .inserted = {0}, .operand_batch = {}, .index_batch = {}, .to_operand = {0}, .index_vector = 1};
  return scatter(table, reshape(at, {at.count(), 1}), shorter, d, [](const Values& v) { return Values{v[1]}; });
}

constexpr Row kRows[] = {
    {"aten::_batch_norm_with_update_functional", op<batch_norm_with_update>},
    {"aten::_fused_rms_norm", op<rms_norm>},
    {"aten::_fused_rms_norm_backward", op<rms_norm_backward>},
    {"aten::_native_batch_norm_legit.no_stats", op<batch_norm_no_stats>},
    {"aten::_native_batch_norm_legit_functional", op<batch_norm_functional>},
    {"aten::_weight_norm_interface", op<weight_norm>},
    {"aten::_weight_norm_interface_backward", op<weight_norm_backward>},
    {"aten::batch_norm_backward", op<batch_norm_backward_with_reserve>},
    {"aten::embedding_renorm", op<embedding_renorm>},
    {"aten::native_batch_norm", op<batch_norm>},
    {"aten::native_batch_norm_backward", op<batch_norm_backward>},
    {"aten::native_group_norm", op<group_norm>},
    {"aten::native_group_norm_backward", op<group_norm_backward>},
    {"aten::native_layer_norm", op<layer_norm>},
    {"aten::native_layer_norm_backward", op<layer_norm_backward>},
    {"aten::renorm", op<renorm>},
};

}  // namespace

const Table kNormalization = kRows;

}  // namespace tpu::ops
