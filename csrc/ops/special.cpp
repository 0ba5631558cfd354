// Special functions of statistics and physics.
#include <cmath>

#include "ops/math.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

Value bessel_i1e(Value x) { return chlo("bessel_i1e", {x}); }
// e^(x^2) erfc(x); where that would be infinity times zero, as a continued fraction.
Value erfcx_of(Value x) {
  Value three = like(x, 3), large = x > three;
  Value v = hlo::select(large, x, three), t = v;
  for (int k = 20; k > 0; --k) t = v + 0.5 * k / t;
  return hlo::select(large, std::sqrt(M_1_PI) / t, exponential(x * x) * chlo("erfc", {x}));
}
Value entr_of(Value x) {
  Value zero = like(x, 0);
  Value r = hlo::select(x > zero, negate(x) * log(x), hlo::select(x == zero, zero, like(x, -HUGE_VAL)));
  return hlo::select(is_nan(x), x, r);
}
Value ndtr_of(Value x) { return 0.5 * chlo("erfc", {x * -M_SQRT1_2}); }
Value log_ndtr_of(Value x) {
  Value low = log(0.5 * erfcx_of(x * -M_SQRT1_2)) - x * x * 0.5;
  return hlo::select(x < like(x, -1), low, log1p(negate(0.5 * chlo("erfc", {x * M_SQRT1_2}))));
}
// From an estimate in the tail, by Newton's method on the logarithm; the centre is the inverse of erf.
Value ndtri_of(Value x) {
  Value upper = x > like(x, 0.5), p = hlo::select(upper, 1.0 - x, x);
  Value centre = chlo("erf_inv", {2.0 * p - 1.0}) * M_SQRT2;
  Value target = log(hlo::select(p < like(p, 0.02), p, like(p, 0.02)));
  Value z = target * -2.0;
  Value y = negate(sqrt(z - log(z * (2 * M_PI))));
  for (int i = 0; i < 4; ++i) y = y - (log_ndtr_of(y) - target) * erfcx_of(y * -M_SQRT1_2) * std::sqrt(M_PI / 2);
  Value r = hlo::select(p < like(p, 0.02), y, centre);
  r = select(p != like(p, 0), r, -HUGE_VAL);
  return hlo::select(upper, negate(r), r);
}

// The modified Bessel function of order 0 times e^-|x|: the power series, and far out the asymptotic one.
Value i0e_of(Value given) {
  constexpr double kFar = 30;
  constexpr int kTerms = 60, kFarTerms = 20;
  Value x = abs(given), far = x > like(x, kFar);
  Value near = hlo::select(far, like(x, kFar), x), z = near * near * 0.25;
  Value series = like(x, 1), tail = series, v = hlo::select(far, x, like(x, kFar)), w = 0.125 / v;
  for (int k = kTerms; k > 0; --k) series = 1.0 + series * z * (1.0 / (double(k) * k));
  for (int k = kFarTerms; k > 0; --k) tail = 1.0 + tail * w * (double(2 * k - 1) * (2 * k - 1) / k);
  return hlo::select(far, tail * rsqrt(v) * std::sqrt(M_1_PI / 2), series * exponential(negate(near)));
}
Value i0_of(Value x) { return i0e_of(x) * exponential(abs(x)); }
Value i1_of(Value x) { return bessel_i1e(x) * exponential(abs(x)); }
Value spherical_bessel_j0(Value x) {
  Value zero = x == like(x, 0), infinite = abs(x) == like(x, HUGE_VAL);
  Value v = hlo::select(or_(zero, infinite), like(x, 1), x);
  return hlo::select(zero, like(x, 1), hlo::select(infinite, like(x, 0), sine(v) / v));
}

Value is_pole(Value x) { return and_(x <= like(x, 0), floor(x) == x); }
// The terms of the zeta function before q became positive, the largest first; after so many the rest is lost in
// rounding.
Value negative_terms(Value x, Value q) {
  constexpr double kMost = 1000;
  Value below = q < like(q, 0), base = q - floor(q);
  Value count = hlo::select(below, minimum(negate(floor(q)), like(q, kMost)), like(q, 0));
  auto inside = [=](Value k) { return broadcast(k, q.dims()) <= count; };
  auto unfinished = [&](const Values& v) { return Values{any_element(inside(v[0]))}; };
  auto step = [&](const Values& v) {
    Value term = power(base - broadcast(v[0], q.dims()), negate(x));
    return Values{v[0] + 1.0, hlo::select(inside(v[0]), v[1] + term, v[1])};
  };
  return while_loop({scalar(q, 1), like(q, 0)}, unfinished, step)[1];
}
// The Hurwitz zeta function, infinite at every pole.
Value zeta_of(Value x, Value q) {
  Value positive = hlo::select(q < like(q, 0), q - floor(q), q);
  Value r = select(not_(is_pole(q)), chlo("zeta", {x, positive}) + negative_terms(x, q), HUGE_VAL);
  r = hlo::select(x > like(x, 1), r, select(x == like(x, 1), like(x, HUGE_VAL), NAN));
  return hlo::select(and_(q == like(q, HUGE_VAL), x > like(x, 1)), like(x, 0), r);
}
// Step for step as PyTorch, whose float32 loses much near the poles: gradients of digamma are compared with it.
Value trigamma(Value x) {
  Value mirrored = x < like(x, 0.5), s = sine(x * M_PI);
  Value v = hlo::select(mirrored, 1.0 - x, x), sum = hlo::select(mirrored, M_PI * M_PI * -1.0 / (s * s), like(x, 0));
  for (int i = 0; i < 6; ++i) {
    sum = sum + 1.0 / (v * v);
    v = v + 1.0;
  }
  Value w = 1.0 / (v * v);
  sum = sum + (1.0 + 1.0 / (2.0 * v) + w * (1.0 / 6 - w * (1.0 / 30 - w * (1.0 / 42)))) / v;
  return hlo::select(mirrored, negate(sum), sum);
}
Value polygamma(int64_t n, Value given) {
  Value x = widen(given = to_float(given));
  if (n == 1) return convert(trigamma(x), given.dtype());
  if (n > 1)
    return convert(zeta_of(like(x, double(n) + 1), x) * ((n % 2 ? 1 : -1) * std::tgamma(double(n) + 1)), given.dtype());
  // Near its poles float32 loses too much.
  x = convert(x, DType::F64);
  return convert(hlo::select(x == like(x, 0), -1.0 / x, chlo("digamma", {x})), given.dtype());
}
Value digamma(Value x) { return polygamma(0, x); }

// A family of polynomials: P(0) is 1, the next follow from the two before; `closed` gives any order where |x| < 1.
struct Family {
  Value (*first)(Value x);
  Value (*next)(Value k, Value x, Value p,
                Value q);  // P(k) from P(k - 2) and P(k - 1)
  Value (*closed)(Value n, Value angle) = nullptr;
};
Value polynomial(Value x, Value n, const Family& family) {
  Value order =
      hlo::select(is_nan(n), like(n, -1), hlo::select(n <= like(n, -1), like(n, -1), floor(maximum(n, like(n, 0)))));
  Value zero = like(x, 0), one = like(x, 1), first = family.first(x);
  Value direct = family.closed ? and_(order > like(n, 6), abs(x) < one) : x != x;
  auto active = [=](Value k, Value q) {
    Value wanted = and_(broadcast(k, order.dims()) <= order, q == q);
    return and_(wanted, not_(direct));
  };
  auto unfinished = [&](const Values& v) { return Values{any_element(active(v[0], v[2]))}; };
  auto step = [&](const Values& v) {
    Value k = broadcast(v[0], x.dims()), on = active(v[0], v[2]);
    Value next = family.next(k, x, v[1], v[2]);
    return Values{v[0] + 1.0, hlo::select(on, v[2], v[1]), hlo::select(on, next, v[2])};
  };
  Value q = while_loop({scalar(x, 2), one, first}, unfinished, step)[2];
  if (family.closed) q = hlo::select(direct, family.closed(order, chlo("acos", {hlo::select(direct, x, zero)})), q);
  q = hlo::select(order == like(n, 0), one, q);
  return hlo::select(order < like(n, 0), zero, q);
}

Value chebyshev_next(Value, Value x, Value p, Value q) { return 2.0 * x * q - p; }
constexpr Family kChebyshevT{[](Value x) { return x; }, chebyshev_next,
                             [](Value n, Value angle) { return cosine(n * angle); }};
constexpr Family kChebyshevU{[](Value x) { return x + x; }, chebyshev_next,
                             [](Value n, Value angle) { return sine((n + 1.0) * angle) / sine(angle); }};
constexpr Family kChebyshevV{[](Value x) { return x + x - 1.0; }, chebyshev_next,
                             [](Value n, Value angle) { return cosine((n + 0.5) * angle) / cosine(angle * 0.5); }};
constexpr Family kChebyshevW{[](Value x) { return x + x + 1.0; }, chebyshev_next,
                             [](Value n, Value angle) { return sine((n + 0.5) * angle) / sine(angle * 0.5); }};
constexpr Family kHermiteH{[](Value x) { return x + x; },
                           [](Value k, Value x, Value p, Value q) { return 2.0 * (x * q - (k - 1.0) * p); }};
constexpr Family kHermiteHe{[](Value x) { return x; },
                            [](Value k, Value x, Value p, Value q) { return x * q - (k - 1.0) * p; }};
constexpr Family kLaguerre{
    [](Value x) { return 1.0 - x; },
    [](Value k, Value x, Value p, Value q) { return ((2.0 * k - 1.0 - x) * q - (k - 1.0) * p) / k; }};
constexpr Family kLegendre{
    [](Value x) { return x; },
    [](Value k, Value x, Value p, Value q) { return ((2.0 * k - 1.0) * x * q - (k - 1.0) * p) / k; }};
template <const Family& F>
Value of(Value x, Value n) {
  return polynomial(x, n, F);
}
template <const Family& F>
Value shifted(Value x, Value n) {
  return polynomial(2.0 * x - 1.0, n, F);
}

constexpr Row kRows[] = {
    {"aten::digamma", op<digamma>},
    {"aten::i0", op<float_unary<i0_of>>},
    {"aten::polygamma", op<polygamma>},
    {"aten::special_chebyshev_polynomial_t", op<float_binary<of<kChebyshevT>>>},
    {"aten::special_chebyshev_polynomial_u", op<float_binary<of<kChebyshevU>>>},
    {"aten::special_chebyshev_polynomial_v", op<float_binary<of<kChebyshevV>>>},
    {"aten::special_chebyshev_polynomial_w", op<float_binary<of<kChebyshevW>>>},
    {"aten::special_entr", op<float_unary<entr_of>>},
    {"aten::special_erfcx", op<float_unary<erfcx_of>>},
    {"aten::special_hermite_polynomial_h", op<float_binary<of<kHermiteH>>>},
    {"aten::special_hermite_polynomial_he", op<float_binary<of<kHermiteHe>>>},
    {"aten::special_i0e", op<float_unary<i0e_of>>},
    {"aten::special_i1", op<float_unary<i1_of>>},
    {"aten::special_i1e", op<float_unary<bessel_i1e>>},
    {"aten::special_laguerre_polynomial_l", op<float_binary<of<kLaguerre>>>},
    {"aten::special_legendre_polynomial_p", op<float_binary<of<kLegendre>>>},
    {"aten::special_log_ndtr", op<float_unary<log_ndtr_of>>},
    {"aten::special_modified_bessel_i0", op<float_unary<i0_of>>},
    {"aten::special_modified_bessel_i1", op<float_unary<i1_of>>},
    {"aten::special_ndtr", op<float_unary<ndtr_of>>},
    {"aten::special_ndtri", op<float_unary<ndtri_of>>},
    {"aten::special_shifted_chebyshev_polynomial_t", op<float_binary<shifted<kChebyshevT>>>},
    {"aten::special_shifted_chebyshev_polynomial_u", op<float_binary<shifted<kChebyshevU>>>},
    {"aten::special_shifted_chebyshev_polynomial_v", op<float_binary<shifted<kChebyshevV>>>},
    {"aten::special_shifted_chebyshev_polynomial_w", op<float_binary<shifted<kChebyshevW>>>},
    {"aten::special_spherical_bessel_j0", op<float_unary<spherical_bessel_j0>>},
    {"aten::special_zeta", op<float_binary<zeta_of>>},
};

}  // namespace

const Table kSpecial = kRows;

}  // namespace tpu::ops
