// Losses, forward and backward.
#include <cmath>

#include "base/error.h"
#include "ops/indexing.h"
#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

enum Reduction { kNone = 0, kMean = 1, kSum = 2 };

Value reduced(Value loss, int64_t reduction) {
  if (reduction == kNone) return loss;
  const Dims all = axes(loss, {});
  return reduction == kMean ? mean(loss, all, false) : sum(loss, all, false);
}
// The output's gradient spread over the elements of a loss with these dims.
Value spread(Value g, const Value& x, int64_t reduction) {
  g = broadcast(convert(g, x.dtype()), x.dims());
  return reduction == kMean ? g / double(x.count()) : g;
}

template <auto F>
Value pair_loss(Value x, Value target, int64_t reduction) {
  auto [a, b] = promote_to(compute_type(promote(x.dtype(), target.dtype())), x, target);
  return convert(reduced(F(a, b), reduction), promote(x.dtype(), target.dtype()));
}
template <auto F>
Value pair_grad(Value g, Value x, Value target, int64_t reduction) {
  const DType t = promote(x.dtype(), target.dtype());
  auto [a, b] = promote_to(compute_type(t), x, target);
  return convert(spread(g, a, reduction) * F(a, b), t);
}
Value square(Value x, Value y) { return (x - y) * (x - y); }
Value square_slope(Value x, Value y) { return (x - y) * 2.0; }
Value soft_margin(Value x, Value y) { return log1p(exponential(negate(x * y))); }
Value soft_margin_slope(Value x, Value y) { return negate(y) * logistic(negate(x * y)); }

template <auto F>
Value knee_loss(Value x, Value target, int64_t reduction, double knee) {
  const DType t = promote(x.dtype(), target.dtype());
  auto [a, b] = promote_to(compute_type(t), x, target);
  return convert(reduced(F(a - b, knee), reduction), t);
}
template <auto F>
Value knee_grad(Value g, Value x, Value target, int64_t reduction, double knee) {
  const DType t = promote(x.dtype(), target.dtype());
  auto [a, b] = promote_to(compute_type(t), x, target);
  return convert(spread(g, a, reduction) * F(a - b, knee), t);
}
Value smooth_l1(Value d, double beta) {
  Value a = abs(d);
  return beta == 0 ? a : hlo::select(a < like(a, beta), a * a * (0.5 / beta), a - 0.5 * beta);
}
Value smooth_l1_slope(Value d, double beta) {
  return beta == 0 ? sign(d) : hlo::select(abs(d) < like(d, beta), d / beta, sign(d));
}
Value huber(Value d, double delta) {
  Value a = abs(d);
  return hlo::select(a <= like(a, delta), a * a * 0.5, (a - 0.5 * delta) * delta);
}
Value huber_slope(Value d, double delta) { return minimum(maximum(d, like(d, -delta)), like(d, delta)); }

Value weighted(Value loss, const std::optional<Value>& weight) {
  return weight ? loss * broadcast(convert(*weight, loss.dtype()), loss.dims()) : loss;
}
Value binary_cross_entropy(Value given, Value target, std::optional<Value> weight, int64_t reduction) {
  Value x = widen(given), y = widen(target);
  auto log_of = [](Value v) { return maximum(log(v), like(v, -100)); };
  auto log1m_of = [](Value v) { return maximum(log1p(negate(v)), like(v, -100)); };
  Value loss = (y - 1.0) * log1m_of(x) - y * log_of(x);
  return convert(reduced(weighted(loss, weight), reduction), given.dtype());
}
Value binary_cross_entropy_backward(Value g, Value given, Value target, std::optional<Value> weight,
                                    int64_t reduction) {
  Value x = widen(given), y = widen(target);
  Value slope = (x - y) / maximum((1.0 - x) * x, like(x, 1e-12));
  return convert(spread(g, x, reduction) * weighted(slope, weight), given.dtype());
}

// ---- negative log likelihood: classes in dim 1 of [n, c, rest] (or of a vector of classes)

struct Classes {
  Value x;       // [n, c, rest], wide
  Value target;  // [n, rest]
  Value valid;   // Pred, as target
  Value weight;  // as target: the class's weight, zero where ignored
};
Classes classes(Value given, Value target, const std::optional<Value>& weight, int64_t ignored) {
  Classes k;
  const bool single = given.rank() == 1;
  const int64_t n = single ? 1 : given.dim(0), c = given.dim(single ? 0 : 1);
  const int64_t rest = n * c == 0 ? 0 : given.count() / (n * c);
  k.x = reshape(widen(given), {n, c, rest});
  Value t = reshape(convert(target, DType::I64), {n, rest});
  k.valid = t != like(t, ignored);
  if (t.count() > 0)
    t.builder->require(or_(not_(k.valid), and_(t >= like(t, 0), t < like(t, c))), "nll_loss: target is out of bounds");
  k.target = minimum(maximum(hlo::select(k.valid, t, like(t, 0)), like(t, 0)), like(t, std::max<int64_t>(c - 1, 0)));
  Value one = constant(*given.builder, 1.0, {k.x.dtype(), t.dims()});
  Value w = weight && t.count() > 0 ? take_slices(convert(*weight, k.x.dtype()), 0, k.target) : one;
  k.weight = hlo::select(k.valid, w, like(w, 0));
  return k;
}
// Whether each class is the target: [n, c, rest].
Value one_hot(const Classes& k) {
  const Type t{DType::I64, k.x.dims()};
  return broadcast_in_dim(k.target, t.dims, {0, 2}) == iota(*k.x.builder, t, 1);
}
std::pair<Value, Value> nll(Value given, Value target, std::optional<Value> weight, int64_t reduction,
                            int64_t ignored) {
  const Classes k = classes(given, target, weight, ignored);
  Value picked = sum(hlo::select(one_hot(k), k.x, like(k.x, 0)), {1}, false);
  Value loss = negate(picked) * k.weight;
  Value total = sum(k.weight, {0, 1}, false);
  const DType t = given.dtype();
  if (reduction == kNone) return {convert(reshape(loss, target.dims()), t), convert(scalar(total, 0), t)};
  Value all = sum(loss, {0, 1}, false);
  return {convert(reduction == kMean ? all / total : all, t), convert(total, t)};
}
Value nll_backward(Value gradient, Value given, Value target, std::optional<Value> weight, int64_t reduction,
                   int64_t ignored, Value total) {
  const Classes k = classes(given, target, weight, ignored);
  Value g = convert(gradient, k.x.dtype());
  g = reduction == kNone ? reshape(g, k.target.dims()) : broadcast(g, k.target.dims());
  if (reduction == kMean) g = g / broadcast(convert(total, g.dtype()), g.dims());
  Value slope = broadcast_in_dim(negate(g * k.weight), k.x.dims(), {0, 2});
  return convert(reshape(hlo::select(one_hot(k), slope, like(slope, 0)), given.dims()), given.dtype());
}

// ---- margins between classes: [n, c] (or a vector, or one score)

Value as_matrix(Value x) { return reshape(x, x.rank() == 2 ? x.dims() : Dims{1, x.count()}); }

// Of [n, c] with a target for each row: how far each class comes within the margin, zero for the target itself.
struct Margins {
  Value z, weight;  // [n, c]; the target's weight
  Value one_hot;    // Pred
};
Margins margins(Value x, Value target, Number p, Value margin, const std::optional<Value>& weight) {
  const Type t{DType::I64, x.dims()};
  Value at = reshape(convert(target, DType::I64), {x.dim(0)});
  at.builder->require(and_(at >= like(at, 0), at < like(at, x.dim(1))), "multi_margin_loss: target is out of bounds");
  Margins m;
  m.one_hot = broadcast_in_dim(at, t.dims, {0}) == iota(*x.builder, t, 1);
  Value own = sum(hlo::select(m.one_hot, x, like(x, 0)), {1}, true);
  Value z = fit(margin, x) - stretch(own, x) + x;
  m.z = hlo::select(or_(m.one_hot, z <= like(z, 0)), like(z, 0), z);
  Value w = like(own, 1);
  if (weight) {
    Value table = broadcast_in_dim(convert(*weight, x.dtype()), x.dims(), {1});
    w = sum(hlo::select(m.one_hot, table, like(x, 0)), {1}, true);
  }
  m.weight = stretch(w, x);
  check(p.value() == 1 || p.value() == 2, Code::Unimplemented, "multi_margin_loss with p = ", p.value());
  return m;
}
Value multi_margin(Value given, Value target, Number p, Value margin, std::optional<Value> weight, int64_t reduction) {
  // The meta kernel makes a vector of this scalar.
  check(reduction != kNone || given.rank() == 2 || target.rank() == 1, Code::Unimplemented, "loss of one score vector");
  Value x = as_matrix(widen(given));
  const Margins m = margins(x, target, p, margin, weight);
  Value loss = sum((p.value() == 1 ? m.z : m.z * m.z) * m.weight, {1}, false) / double(x.dim(1));
  return convert(reduced(loss, reduction), given.dtype());
}
// The output's gradient for each row of [n, c], shared among the classes.
Value per_row(Value g, const Value& x, int64_t reduction) {
  g = convert(g, x.dtype());
  g = reduction == kNone ? broadcast_in_dim(reshape(g, {x.dim(0)}), x.dims(), {0})
                         : broadcast(reshape(g, {}), x.dims());
  return g / double(reduction == kMean ? x.count() : x.dim(1));
}
Value multi_margin_backward(Value g, Value given, Value target, Number p, Value margin, std::optional<Value> weight,
                            int64_t reduction) {
  Value x = as_matrix(widen(given));
  const Margins m = margins(x, target, p, margin, weight);
  Value slope = p.value() == 1 ? convert(m.z > like(m.z, 0), x.dtype()) : m.z * 2.0;
  slope = slope * m.weight * per_row(g, x, reduction);
  Value own = stretch(negate(sum(slope, {1}, true)), x);
  return convert(reshape(hlo::select(m.one_hot, own, slope), given.dims()), given.dtype());
}

// Targets of a row up to its first negative entry: [n, targets, classes].
struct Labels {
  Value one_hot;    // Pred: which class each target is; none behind the end
  Value is_target;  // Pred, [n, classes]
  Value z;          // by how much each other class comes within the margin of each target
};
Labels labels(Value x, Value target) {
  Value t = as_matrix(convert(target, DType::I64)), at = iota(*x.builder, t.type, 1);
  Value end = stretch(amin(hlo::select(t < like(t, 0), at, like(t, t.dim(1))), {1}, true), t);
  t = hlo::select(at < end, t, like(t, -1));
  const Dims dims{x.dim(0), t.dim(1), x.dim(1)};
  Labels l;
  l.one_hot = broadcast_in_dim(t, dims, {0, 1}) == iota(*x.builder, {DType::I64, dims}, 2);
  l.is_target = any(l.one_hot, {1}, false);
  Value wide = broadcast_in_dim(x, dims, {0, 2});
  Value own = sum(hlo::select(l.one_hot, wide, like(wide, 0)), {2}, true);
  Value z = 1.0 - stretch(own, wide) + wide;
  Value counts = and_(stretch(any(l.one_hot, {2}, true), l.one_hot), not_(broadcast_in_dim(l.is_target, dims, {0, 2})));
  l.z = hlo::select(and_(counts, z > like(z, 0)), z, like(z, 0));
  return l;
}
std::pair<Value, Value> multilabel_margin(Value given, Value target, int64_t reduction) {
  // The meta kernel makes a vector of this scalar.
  check(reduction != kNone || given.rank() == 2, Code::Unimplemented, "loss of one score vector");
  Value x = as_matrix(widen(given));
  const Labels l = labels(x, target);
  Value loss = sum(l.z, {1, 2}, false) / double(x.dim(1));
  return {convert(reduced(loss, reduction), given.dtype()),
          convert(reshape(l.is_target, target.dims()), given.dtype())};
}
Value multilabel_margin_backward(Value g, Value given, Value target, int64_t reduction, Value) {
  Value x = as_matrix(widen(given));
  const Labels l = labels(x, target);
  Value within = convert(l.z > like(l.z, 0), x.dtype());
  Value own = stretch(sum(within, {2}, true), within);
  Value slope = sum(within - hlo::select(l.one_hot, own, like(own, 0)), {1}, false);
  return convert(reshape(slope * per_row(g, x, reduction), given.dims()), given.dtype());
}

constexpr Row kRows[] = {
    {"aten::binary_cross_entropy", op<binary_cross_entropy>},
    {"aten::binary_cross_entropy_backward", op<binary_cross_entropy_backward>},
    {"aten::huber_loss", op<knee_loss<huber>>},
    {"aten::huber_loss_backward", op<knee_grad<huber_slope>>},
    {"aten::mse_loss", op<pair_loss<square>>},
    {"aten::mse_loss_backward", op<pair_grad<square_slope>>},
    {"aten::multi_margin_loss", op<multi_margin>},
    {"aten::multi_margin_loss_backward", op<multi_margin_backward>},
    {"aten::multilabel_margin_loss_backward", op<multilabel_margin_backward>},
    {"aten::multilabel_margin_loss_forward", op<multilabel_margin>},
    {"aten::nll_loss2d_backward", op<nll_backward>},
    {"aten::nll_loss2d_forward", op<nll>},
    {"aten::nll_loss_backward", op<nll_backward>},
    {"aten::nll_loss_forward", op<nll>},
    {"aten::smooth_l1_loss", op<knee_loss<smooth_l1>>},
    {"aten::smooth_l1_loss_backward", op<knee_grad<smooth_l1_slope>>},
    {"aten::soft_margin_loss", op<pair_loss<soft_margin>>},
    {"aten::soft_margin_loss_backward", op<pair_grad<soft_margin_slope>>},
};

}  // namespace

const Table kLoss = kRows;

}  // namespace tpu::ops
