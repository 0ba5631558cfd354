// Decompositions, solvers and distances. The CPU plugin has no LU, QR or eigenvalue routines of its own.
#include <cmath>

#include "base/error.h"
#include "ops/math.h"
#include "ops/matrix.h"
#include "ops/reduction.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

Dims batch(const Value& x) { return Dims(x.dims().begin(), x.dims().end() - 2); }

Value solve_triangular(Value a, Value b, bool upper, bool left, bool unit) {
  Dims dims = broadcast_dims(batch(a), batch(b));
  auto with = [&](const Value& v) {
    Dims d = dims;
    d.insert(d.end(), v.dims().end() - 2, v.dims().end());
    return broadcast(v, d);
  };
  a = with(a);
  b = with(b);
  return b.count() == 0 ? b : hlo::triangular_solve(a, b, left, !upper, unit, false);
}

Value euclidean(Value a, Value b) {
  Value d = broadcast_in_dim(
      a,
      [&] {
        Dims dims(a.dims().begin(), a.dims().end() - 1);
        dims.push_back(b.dim(b.rank() - 2));
        dims.push_back(a.dim(a.rank() - 1));
        return dims;
      }(),
      [&] {
        Dims p;
        for (int64_t i = 0; i + 1 < a.rank(); ++i) p.push_back(i);
        p.push_back(a.rank());
        return p;
      }());
  Dims p;
  for (int64_t i = 0; i + 2 < b.rank(); ++i) p.push_back(i);
  p.push_back(b.rank() - 1);
  p.push_back(b.rank());
  return d - broadcast_in_dim(b, d.dims(), p);
}
Value cdist(Value a, Value b, double p, Ignored) {
  const Dims lead = broadcast_dims(batch(a), batch(b));
  auto with = [&](const Value& v) {
    Dims d = lead;
    d.insert(d.end(), v.dims().end() - 2, v.dims().end());
    return broadcast(widen(v), d);
  };
  Value d = abs(euclidean(with(a), with(b)));
  const Dims last{d.rank() - 1};
  Value r;
  if (p == 0) {
    r = sum(convert(d != like(d, 0), d.dtype()), last, false);
  } else if (p == 1) {
    r = sum(d, last, false);
  } else if (p == 2) {
    r = sqrt(sum(d * d, last, false));
  } else if (std::isinf(p)) {
    r = d.dim(last[0]) == 0 ? sum(d, last, false) : amax(d, last, false);
  } else {
    Value s = sum(power(d, like(d, p)), last, false);
    r = power(s, like(s, 1 / p));
  }
  return convert(r, a.dtype());
}

Value cross(Value a, Value b, int64_t dim) {
  const DType t = promote(a.dtype(), b.dtype());
  auto [x, y] = promote_to(compute_type(t), a, b);
  dim = wrap(dim, x.rank());
  // The three parts, from the given one on.
  auto from = [dim](const Value& v, int64_t first) {
    return concatenate({slice(v, dim, first, 3), slice(v, dim, 0, first)}, dim);
  };
  return convert(from(x, 1) * from(y, 2) - from(x, 2) * from(y, 1), t);
}

// Householder reflections, one column after another.
std::pair<Value, Value> qr(Value a, std::string mode) {
  check(is_float(a.dtype()), Code::Unimplemented, "linalg_qr of ", name(a.dtype()));
  const int64_t m = a.dim(a.rank() - 2), n = a.dim(a.rank() - 1), k = std::min(m, n);
  const Dims lead = batch(a);
  const int64_t rows = element_count(lead);
  Builder& b = *a.builder;
  const bool wants_q = mode != "r", complete = mode == "complete";
  const int64_t width = complete ? m : k;
  auto with = [&](int64_t x, int64_t y) {
    Dims d = lead;
    d.insert(d.end(), {x, y});
    return d;
  };
  if (a.count() == 0) {
    const Type square{DType::I32, with(m, width)};
    Value i = iota(b, square, square.rank() - 2), j = iota(b, square, square.rank() - 1);
    Value q = wants_q ? convert(i == j, a.dtype()) : constant(b, 0.0, {a.dtype(), {0}});
    return {q, constant(b, 0.0, {a.dtype(), with(complete || !wants_q ? (complete ? m : k) : k, n)})};
  }
  Value r = reshape(a, {rows, m, n});
  const Type eye_type{DType::I32, {rows, m, m}};
  Value q = convert(iota(b, eye_type, 1) == iota(b, eye_type, 2), a.dtype());
  Value column_of = iota(b, {DType::I64, {n}}, 0), row_of = iota(b, {DType::I64, {m}}, 0);
  auto body = [&](const Values& s) {
    Value at = s[0], r0 = s[1], q0 = s[2];
    Value here = broadcast(at, {n}) == column_of;
    Value x = sum(r0 * broadcast_in_dim(convert(here, r0.dtype()), r0.dims(), {2}), {2}, false);
    Value below = row_of >= broadcast(at, {m}), pivot_at = row_of == broadcast(at, {m});
    x = x * broadcast_in_dim(convert(below, x.dtype()), x.dims(), {1});
    Value pivot = sum(x * broadcast_in_dim(convert(pivot_at, x.dtype()), x.dims(), {1}), {1}, false);
    Value norm = sqrt(sum(x * x, {1}, false));
    Value sign_of = hlo::select(pivot < like(pivot, 0), like(pivot, -1), like(pivot, 1));
    Value v = x + broadcast_in_dim(norm * sign_of, x.dims(), {0}) *
                      broadcast_in_dim(convert(pivot_at, x.dtype()), x.dims(), {1});
    Value vv = sum(v * v, {1}, false);
    // A column that is zero below its pivot stays as it is.
    Value tail = sum(x * x, {1}, false) - pivot * pivot;
    Value flat = tail <= like(tail, 0);
    Value beta =
        hlo::select(or_(vv == like(vv, 0), flat), like(vv, 0), 2.0 / hlo::select(vv == like(vv, 0), like(vv, 1), vv));
    Value column = reshape(v, {rows, m, 1}), row = reshape(v, {rows, 1, m});
    Value scaled = column * broadcast_in_dim(beta, column.dims(), {0});
    Value r1 = r0 - matmul(scaled, matmul(row, r0));
    Value q1 = q0 - matmul(matmul(q0, scaled), row);
    return Values{at + like(at, 1), r1, q1};
  };
  const int64_t steps = m > n ? n : m - 1;
  Values end = while_loop(
      {constant(b, int64_t{0}, {DType::I64, {}}), r, q},
      [&](const Values& s) { return Values{s[0] < like(s[0], steps)}; }, body);
  const Type full{DType::I32, {rows, m, n}};
  Value upper = select(iota(b, full, 1) <= iota(b, full, 2), end[1], 0.0);
  Value q_out = wants_q ? reshape(slice(end[2], 2, 0, width), with(m, width)) : constant(b, 0.0, {a.dtype(), {0}});
  return {q_out, reshape(slice(upper, 1, 0, complete ? m : k), with(complete ? m : k, n))};
}

constexpr Row kRows[] = {
    {"aten::_cdist_forward", op<cdist>},
    {"aten::linalg_cross", op<cross>},
    {"aten::linalg_qr", op<qr>},
    {"aten::linalg_solve_triangular", op<solve_triangular>},
};

}  // namespace

const Table kLinalg = kRows;

}  // namespace tpu::ops
