// Dense factorizations and the solvers on them: LU, Cholesky, inverses. Steps run in a loop inside the program, over
// all matrices of a batch at once; the batch is one leading dim here.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/indexing.h"
#include "ops/math.h"
#include "ops/matrix.h"
#include "ops/reduction.h"
#include "ops/sorting.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

Dims lead(const Value& x) { return Dims(x.dims().begin(), x.dims().end() - 2); }
Dims with(Dims dims, std::initializer_list<int64_t> last) {
  dims.insert(dims.end(), last);
  return dims;
}
int64_t rows_of(const Value& x) { return x.dim(x.rank() - 2); }
int64_t columns_of(const Value& x) { return x.dim(x.rank() - 1); }
// [.., m, n] as [batch, m, n].
Value flat(Value x) { return reshape(x, {element_count(lead(x)), rows_of(x), columns_of(x)}); }
Value index(Builder& b, int64_t v) { return constant(b, v, {DType::I64, {}}); }
Value places(const Value& x, int64_t dim) { return iota(*x.builder, {DType::I64, x.dims()}, dim); }
Value at(const Value& places, Value scalar) { return places == broadcast(scalar, places.dims()); }

Value adjoint(Value x) {
  x = transpose(x, {0, 2, 1});
  return is_complex(x.dtype()) ? complex(real(x), negate(imag(x))) : x;
}
Value identity_like(const Value& x) { return convert(places(x, x.rank() - 2) == places(x, x.rank() - 1), x.dtype()); }
Value solve_triangle(Value a, Value b, bool lower, bool unit) {
  return b.count() == 0 ? b : hlo::triangular_solve(a, b, true, lower, unit, false);
}
// A finding in `info` would have to raise, which only PyTorch's CPU kernel can do at once.
void no_check(bool check_errors, const char* op_name) {
  check(!check_errors, Code::Unimplemented, op_name, " with check_errors");
}

// What pivots are chosen by, as LAPACK does.
Value magnitude(Value x) { return is_complex(x.dtype()) ? abs(real(x)) + abs(imag(x)) : abs(x); }

// Exchanges row k with row p, one p for each matrix.
Value exchange(Value x, Value k, Value p) {
  Builder& b = *x.builder;
  Value row = places(x, 1);
  Value here = at(row, k), there = row == broadcast_in_dim(p, x.dims(), {0});
  Value of_k = dynamic_slice(x, {index(b, 0), k, index(b, 0)}, {x.dim(0), 1, x.dim(2)});
  Value of_p = sum(hlo::select(there, x, like(x, 0)), {1}, true);
  return hlo::select(here, stretch(of_p, x), hlo::select(there, stretch(of_k, x), x));
}

struct Lu {
  Value lu;      // [batch, m, n]
  Value pivots;  // I32, from one on: [batch, min(m, n)]
  Value info;    // I32: the first pivot that is zero, from one on
};

Values lu_step(const Values& s, bool pivot) {
  Value k = s[0], a = s[1], pivots = s[2], info = s[3];
  Builder& b = *k.builder;
  const int64_t batch = a.dim(0), m = a.dim(1), n = a.dim(2);
  Value zero = index(b, 0);
  auto column = [&](Value x) { return dynamic_slice(x, {zero, zero, k}, {batch, m, 1}); };
  Value p = broadcast(k, {batch});
  if (pivot) {
    Value size = magnitude(column(a));
    Value below = places(size, 1) >= broadcast(k, size.dims());
    p = reshape(extreme(hlo::select(below, size, like(size, -1)), 1, false, true).second, {batch});
    a = exchange(a, k, p);
  }
  Value top = dynamic_slice(a, {zero, k, zero}, {batch, 1, n});
  Value chosen = dynamic_slice(top, {zero, zero, k}, {batch, 1, 1});
  Value singular = chosen == like(chosen, 0);
  Value left = column(a) / stretch(hlo::select(singular, like(chosen, 1), chosen), column(a));
  Value below = places(a, 1) > broadcast(k, a.dims()), j = places(a, 2);
  Value rest = a - stretch(left, a) * stretch(top, a);
  rest = hlo::select(j > broadcast(k, j.dims()), rest, hlo::select(at(j, k), stretch(left, a), a));
  a = hlo::select(and_(below, not_(stretch(singular, a))), rest, a);
  pivots = dynamic_update_slice(pivots, reshape(convert(p + like(p, 1), DType::I32), {batch, 1}), {zero, k});
  Value first = and_(reshape(singular, {batch}), info == like(info, 0));
  info = hlo::select(first, broadcast(convert(k + like(k, 1), DType::I32), {batch}), info);
  return {k + like(k, 1), a, pivots, info};
}
Lu factor(Value a, bool pivot) {
  Builder& b = *a.builder;
  const int64_t batch = a.dim(0), steps = std::min(a.dim(1), a.dim(2));
  const Type none{DType::I32, {batch}};
  Value pivots = constant(b, int64_t{0}, {DType::I32, {batch, steps}});
  if (a.count() == 0) return {a, pivots, constant(b, int64_t{0}, none)};
  Values end = while_loop(
      {index(b, 0), a, pivots, constant(b, int64_t{0}, none)},
      [&](const Values& s) { return Values{s[0] < like(s[0], steps)}; },
      [&](const Values& s) { return lu_step(s, pivot); });
  return {end[1], end[2], end[3]};
}

// Which row of the matrix each row of the factors is: [batch, m].
Value permutation(Value pivots, int64_t m) {
  Builder& b = *pivots.builder;
  const int64_t batch = pivots.dim(0), steps = pivots.dim(1);
  Value start = iota(b, {DType::I64, {batch, m, 1}}, 1);
  if (batch == 0 || steps == 0) return reshape(start, {batch, m});
  Value end = while_loop(
      {index(b, 0), start}, [&](const Values& s) { return Values{s[0] < like(s[0], steps)}; },
      [&](const Values& s) {
        Value p = dynamic_slice(pivots, {index(b, 0), s[0]}, {batch, 1});
        p = reshape(convert(p, DType::I64), {batch});
        return Values{s[0] + like(s[0], 1), exchange(s[1], s[0], p - like(p, 1))};
      })[1];
  return reshape(end, {batch, m});
}
Value permuted(Value x, Value order) {
  return x.count() == 0 ? x : pick_elements(x, 1, broadcast_in_dim(order, x.dims(), {0, 1}));
}

// x with A x = b, or with the adjoint of A.
Value solve_left(Value lu, Value order, Value b, bool adjoint_of) {
  if (b.count() == 0) return b;
  if (!adjoint_of) return solve_triangle(lu, solve_triangle(lu, permuted(b, order), true, true), false, false);
  Value h = adjoint(lu);
  return permuted(solve_triangle(h, solve_triangle(h, b, true, false), false, true), sorted(order, 1, false).second);
}

std::tuple<Value, Value, Value> lu_factor_ex(Value a, bool pivot, bool check_errors) {
  no_check(check_errors, "linalg_lu_factor_ex");
  const Dims batch = lead(a);
  const Lu f = factor(flat(a), pivot);
  return {reshape(f.lu, a.dims()), reshape(f.pivots, with(batch, {f.pivots.dim(1)})), reshape(f.info, batch)};
}

Value permutation_matrix(Value order, DType t) {
  const int64_t m = order.dim(1);
  Value row = iota(*order.builder, {DType::I64, {order.dim(0), m, m}}, 1);
  return convert(row == broadcast_in_dim(order, row.dims(), {0, 2}), t);
}
std::tuple<Value, Value, Value> unpack(Value lu, Value pivots, bool data, bool with_pivots) {
  const Dims batch = lead(lu);
  const DType t = lu.dtype();
  const int64_t m = rows_of(lu), n = columns_of(lu), k = std::min(m, n);
  Value none = constant(*lu.builder, 0.0, {t, {0}});
  Value p = none, l = none, u = none, x = flat(lu);
  if (data) {
    l = slice(x, 2, 0, k);
    u = slice(x, 1, 0, k);
    l = hlo::select(places(l, 1) > places(l, 2), l, identity_like(l));
    u = hlo::select(places(u, 1) <= places(u, 2), u, like(u, 0));
    l = reshape(l, with(batch, {m, k}));
    u = reshape(u, with(batch, {k, n}));
  }
  if (with_pivots) {
    Value order = permutation(reshape(pivots, {x.dim(0), pivots.dim(pivots.rank() - 1)}), m);
    p = reshape(permutation_matrix(order, t), with(batch, {m, m}));
  }
  return {p, l, u};
}
std::tuple<Value, Value, Value> lu(Value a, bool pivot) {
  auto [f, pivots, info] = lu_factor_ex(a, pivot, false);
  return unpack(f, pivots, true, pivot);
}

Value broadcast_batch(Value x, const Dims& batch) { return broadcast(x, with(batch, {rows_of(x), columns_of(x)})); }

Value lu_solve(Value f, Value pivots, Value b, bool left, bool adjoint_of) {
  const Dims batch = broadcast_dims(lead(f), lead(b));
  const int64_t n = rows_of(f);
  pivots = broadcast(pivots, with(batch, {n}));
  f = flat(broadcast_batch(f, batch));
  b = broadcast_batch(b, batch);
  const Dims out = b.dims();
  b = flat(b);
  if (b.count() == 0) return reshape(b, out);
  Value order = permutation(reshape(pivots, {b.dim(0), n}), n);
  // x op(A) = b is the adjoint of op(A)^H x^H = b^H.
  Value x = left ? solve_left(f, order, b, adjoint_of) : adjoint(solve_left(f, order, adjoint(b), !adjoint_of));
  return reshape(x, out);
}

// -1 where an odd number of rows were exchanged: [batch].
Value parity(Value pivots, DType t) {
  Value own = iota(*pivots.builder, pivots.type, 1) + like(pivots, 1);
  Value odd = sum(convert(pivots != own, DType::I32), {1}, false);
  odd = and_(odd, like(odd, 1));
  return convert(like(odd, 1) - odd - odd, t);
}
// Off the diagonal, ones.
Value diagonal_of(Value x) { return hlo::select(places(x, 1) == places(x, 2), x, like(x, 1)); }
Value product(Value x) { return reduce(x, "multiply", scalar(x, 1), {1, 2}); }

std::tuple<Value, Value, Value> det(Value a) {
  auto [f, pivots, info] = lu_factor_ex(a, true, false);
  Value x = flat(f), p = reshape(pivots, {x.dim(0), x.dim(1)});
  return {reshape(parity(p, a.dtype()) * product(diagonal_of(x)), lead(a)), f, pivots};
}
std::tuple<Value, Value, Value, Value> slogdet(Value a) {
  auto [f, pivots, info] = lu_factor_ex(a, true, false);
  Value x = diagonal_of(flat(f)), p = reshape(pivots, {x.dim(0), x.dim(1)});
  Value direction = parity(p, a.dtype()) * product(sign(x));
  return {reshape(direction, lead(a)), reshape(sum(log(abs(x)), {1, 2}, false), lead(a)), f, pivots};
}
std::tuple<Value, Value, Value, Value> solve_ex(Value a, Value b, bool left, bool check_errors) {
  no_check(check_errors, "_linalg_solve_ex");
  auto [f, pivots, info] = lu_factor_ex(a, true, false);
  const Dims vectors(a.dims().begin(), a.dims().end() - 1);
  if (b.rank() != 1 && b.dims() != vectors) return {lu_solve(f, pivots, b, left, false), f, pivots, info};
  Value x = lu_solve(f, pivots, reshape(b, with(b.dims(), {1})), left, false);
  return {reshape(x, Dims(x.dims().begin(), x.dims().end() - 1)), f, pivots, info};
}

std::pair<Value, Value> inv_ex(Value a, bool check_errors) {
  no_check(check_errors, "linalg_inv_ex");
  Value x = flat(a);
  const Lu f = factor(x, true);
  Value inverse = solve_left(f.lu, permutation(f.pivots, x.dim(1)), identity_like(x), false);
  return {reshape(inverse, a.dims()), reshape(f.info, lead(a))};
}

// Which leading minor of a is the first not to be positive, from one on; looked for only where `failed`.
Value first_bad_minor(Value a, Value failed) {
  Builder& b = *a.builder;
  const int64_t batch = a.dim(0), n = a.dim(1);
  auto condition = [&](const Values& s) { return Values{and_(any_element(failed), s[0] < like(s[0], n))}; };
  auto body = [&](const Values& s) {
    Value k = s[0], x = s[1], info = s[2], zero = index(b, 0);
    Value column = dynamic_slice(x, {zero, zero, k}, {batch, n, 1});
    Value pivot = dynamic_slice(column, {zero, k, zero}, {batch, 1, 1});
    Value part = is_complex(pivot.dtype()) ? real(pivot) : pivot;
    Value bad = reshape(not_(part > like(part, 0)), {batch});
    Value first = and_(bad, info == like(info, 0));
    info = hlo::select(first, broadcast(convert(k + like(k, 1), DType::I32), {batch}), info);
    x = x - stretch(column / stretch(pivot, column), x) * stretch(adjoint(column), x);
    return Values{k + like(k, 1), x, info};
  };
  Value none = constant(b, int64_t{0}, {DType::I32, {batch}});
  return while_loop({index(b, 0), a, none}, condition, body)[2];
}
std::pair<Value, Value> cholesky_ex(Value given, bool upper, bool check_errors) {
  no_check(check_errors, "linalg_cholesky_ex");
  Builder& b = *given.builder;
  const Dims batch = lead(given);
  if (given.count() == 0) return {given, constant(b, int64_t{0}, {DType::I32, batch})};
  Value a = flat(given);
  if (upper) a = adjoint(a);
  Value keep = places(a, 1) >= places(a, 2);
  Value l = hlo::select(keep, hlo::cholesky(a, true), like(a, 0));
  Value failed = any(l != l, {1, 2}, false);
  // Both triangles, from the lower one.
  Value whole = hlo::select(keep, a, adjoint(a));
  Value info =
      hlo::select(failed, first_bad_minor(whole, failed), constant(b, int64_t{0}, {DType::I32, failed.dims()}));
  return {reshape(upper ? adjoint(l) : l, given.dims()), reshape(info, batch)};
}

// x with (l l^H) x = b.
Value solve_cholesky(Value b, Value l, bool upper) {
  Value lower = upper ? adjoint(l) : l;
  return solve_triangle(adjoint(lower), solve_triangle(lower, b, true, false), false, false);
}
Value cholesky_solve(Value b, Value l, bool upper) {
  return reshape(solve_cholesky(flat(b), flat(l), upper), b.dims());
}
Value cholesky_inverse(Value l, bool upper) {
  Value x = flat(l);
  return reshape(solve_cholesky(identity_like(x), x, upper), l.dims());
}

std::pair<Value, Value> triangular_solve(Value b, Value a, bool upper, bool transposed, bool unit) {
  const Dims batch = broadcast_dims(lead(a), lead(b));
  a = broadcast_batch(a, batch);
  b = broadcast_batch(b, batch);
  if (b.count() == 0) return {b, a};
  return {hlo::triangular_solve(a, b, true, !upper, unit, transposed), a};
}

// The matrix is halved until its norm is small, the series summed, and the result squared as often.
Value matrix_exp(Value given) {
  if (given.count() == 0) return given;
  // Squaring again and again loses too much in float32.
  Value a = convert(flat(given), is_complex(given.dtype()) ? DType::C128 : DType::F64);
  Builder& b = *a.builder;
  Value norm = amax(sum(abs(a), {1}, false), {0, 1}, false);
  constexpr double kSmall = 0.5;
  constexpr int kTerms = 15;
  Value halvings = clamp(like(norm, 0), ceil(log(norm / kSmall) / M_LN2), like(norm, 1024));
  Value scale = convert(exponential(halvings * -M_LN2), a.dtype());
  Value small = a * broadcast(scale, a.dims()), one = identity_like(a), e = one;
  for (int term = kTerms; term > 0; --term) e = one + matmul(small, e) / double(term);
  Value times = convert(halvings, DType::I64);
  Value r = while_loop(
      {index(b, 0), e}, [&](const Values& s) { return Values{s[0] < times}; },
      [&](const Values& s) { return Values{s[0] + like(s[0], 1), matmul(s[1], s[1])}; })[1];
  return convert(reshape(r, given.dims()), given.dtype());
}

constexpr Row kRows[] = {
    {"aten::_cholesky_solve_helper", op<cholesky_solve>},
    {"aten::_linalg_solve_ex", op<solve_ex>},
    {"aten::cholesky_inverse", op<cholesky_inverse>},
    {"aten::linalg_cholesky_ex", op<cholesky_ex>},
    {"aten::linalg_inv_ex", op<inv_ex>},
    {"aten::linalg_lu", op<lu>},
    {"aten::linalg_lu_factor_ex", op<lu_factor_ex>},
    {"aten::linalg_lu_solve", op<lu_solve>},
    {"aten::linalg_matrix_exp", op<matrix_exp>},
    {"aten::lu_unpack", op<unpack>},
    {"aten::triangular_solve", op<triangular_solve>},
    {"tpu::det", op<det>},
    {"tpu::slogdet", op<slogdet>},
};

}  // namespace

const Table kFactorization = kRows;

}  // namespace tpu::ops
