// Functions of one value, element by element.
#include <cmath>

#include "ops/math.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

constexpr char kAcos[] = "acos", kAcosh[] = "acosh", kAsin[] = "asin", kAsinh[] = "asinh", kAtanh[] = "atanh",
               kCosh[] = "cosh", kErf[] = "erf", kErfc[] = "erfc", kErfInv[] = "erf_inv", kLgamma[] = "lgamma",
               kSinh[] = "sinh";

bool whole_numbers(Value x) { return is_integer(x.dtype()) || x.dtype() == DType::Pred; }

Value abs_op(Value x) {
  if (x.dtype() == DType::Pred || is_unsigned(x.dtype())) return x;
  if (!is_narrow_float(x.dtype())) return abs(x);
  return unary<abs>(x);
}
template <auto F>
Value rounding(Value x) {
  return whole_numbers(x) ? x : unary<F>(x);
}
Value frac_of(Value x) { return x - truncate(x); }
Value round_decimals(Value x, int64_t decimals) {
  if (whole_numbers(x)) return x;
  const double scale = std::pow(10.0, double(std::abs(decimals)));
  Value v = widen(x);
  // Not a constant to XLA, which turns division by one into a product with its rounded reciprocal.
  Value s = hlo::select(is_nan(v), v, like(v, scale));
  v = decimals >= 0 ? round_half_even(v * s) / s : round_half_even(v / s) * s;
  return convert(v, x.dtype());
}
Value reciprocal_of(Value x) { return 1.0 / x; }

// Where the fraction of an IEEE float sits, and the exponent's bias.
struct Layout {
  DType bits;
  int64_t fraction, bias;
};
Layout layout(DType t) { return t == DType::F64 ? Layout{DType::I64, 52, 1023} : Layout{DType::I32, 23, 127}; }
// A normal float as fraction * 2^exponent with 0.5 <= |fraction| < 1; the exponent is an integer.
std::pair<Value, Value> parts(Value x) {
  const Layout l = layout(x.dtype());
  Value raw = bitcast(x, {l.bits, x.dims()});
  Value field = and_(shift_right_logical(raw, like(raw, l.fraction)), like(raw, 2 * l.bias + 1));
  Value rest = and_(raw, like(raw, ~((2 * l.bias + 1) << l.fraction)));
  return {bitcast(or_(rest, like(raw, (l.bias - 1) << l.fraction)), x.type), field - like(field, l.bias - 1)};
}
Value is_normal(Value x) {
  Value m = abs(x);
  return and_(m >= like(m, x.dtype() == DType::F64 ? 0x1p-1022 : 0x1p-126), m < like(m, HUGE_VAL));
}
// 2^n for whole n within the range of normal floats.
Value power_of_two(Value n, DType t) {
  const Layout l = layout(t);
  Value whole = convert(n, l.bits);
  return bitcast(shift_left(whole + like(whole, l.bias), like(whole, l.fraction)), {t, n.dims()});
}
// Exact for whole x.
Value exp2_of(Value x) {
  if (is_complex(x.dtype())) return exponential(x * M_LN2);
  const double most = 2.0 * double(layout(x.dtype()).bias) - 2;
  Value bounded = clamp(like(x, -most), x, like(x, most));
  Value n = round_half_even(bounded), half = floor(n * 0.5);
  n = hlo::select(is_nan(n), like(n, 0), n);
  half = hlo::select(is_nan(half), like(half, 0), half);
  return exponential((bounded - n) * M_LN2) * power_of_two(half, x.dtype()) * power_of_two(n - half, x.dtype());
}
// The logarithm to a base of which log_base(2) is high + low, high having few digits: exact for powers of the base.
Value logarithm(Value x, double base, double high, double low) {
  if (is_complex(x.dtype())) {
    Value l = log(x);
    return complex(real(l) / std::log(base), imag(l) / std::log(base));
  }
  auto [fraction, exponent] = parts(x);
  Value small = fraction < like(x, M_SQRT1_2);
  Value m = hlo::select(small, fraction * 2.0, fraction);
  Value e = convert(exponent, x.dtype()) - convert(small, x.dtype());
  Value regular = e * high + (e * low + log(m) / std::log(base));
  return hlo::select(and_(is_normal(x), x > like(x, 0)), regular, log(x) / std::log(base));
}
Value log2_of(Value x) { return logarithm(x, 2, 1, 0); }
Value log10_of(Value x) { return logarithm(x, 10, 1233.0 / 4096, 4.6050389811952137e-06); }
std::pair<Value, Value> frexp(Value given) {
  Value x = widen(given);
  auto [fraction, exponent] = parts(x);
  Value normal = is_normal(x);
  return {convert(hlo::select(normal, fraction, x), given.dtype()),
          convert(hlo::select(normal, exponent, like(exponent, 0)), DType::I32)};
}
Value sinc_of(Value x) {
  Value p = x * M_PI;
  Value zero = x == like(x, 0);
  return hlo::select(zero, like(x, 1), sine(p) / hlo::select(zero, like(p, 1), p));
}
Value square_root(Value x) { return sqrt(x); }
Value neg(Value x) { return unary<negate>(x); }
Value positive(Value x) { return x; }
Value bitwise_not(Value x) { return not_(x); }
Value logical_not(Value x) { return not_(truth(x)); }
Value sgn_of(Value x) {
  if (!is_complex(x.dtype())) return whole_numbers(x) ? signum(x) : unary<signum>(x);
  Value m = abs(x);
  Value zero = m == like(m, 0);
  Value d = hlo::select(zero, like(m, 1), m);
  return hlo::select(zero, like(x, 0), complex(real(x) / d, imag(x) / d));
}
Value signbit_of(Value x) {
  if (x.dtype() == DType::Pred || is_unsigned(x.dtype())) return truth(like(x, 0));
  if (is_integer(x.dtype())) return x < like(x, 0);
  Value v = widen(x);
  Value bits = bitcast(v, {element_size(v.dtype()) == 8 ? DType::I64 : DType::I32, v.dims()});
  return bits < like(bits, 0);
}
Value is_nan_op(Value x) { return is_nan(x); }
Value is_inf(Value x) {
  if (whole_numbers(x)) return truth(like(x, 0));
  if (is_complex(x.dtype())) return or_(is_inf(real(x)), is_inf(imag(x)));
  Value v = abs(widen(x));
  return v == like(v, HUGE_VAL);
}
Value is_pos_inf(Value x) {
  if (whole_numbers(x)) return truth(like(x, 0));
  Value v = widen(x);
  return v == like(v, HUGE_VAL);
}
Value is_neg_inf(Value x) {
  if (whole_numbers(x)) return truth(like(x, 0));
  Value v = widen(x);
  return v == like(v, -HUGE_VAL);
}
double largest(DType t) {
  switch (t) {
    case DType::F64:
      return 1.7976931348623157e308;
    case DType::F16:
      return 65504;
    case DType::BF16:
      return 3.3895313892515355e38;
    case DType::F8E4M3:
      return 448;
    case DType::F8E5M2:
      return 57344;
    default:
      return 3.4028234663852886e38;
  }
}
Value nan_to_num(Value x, std::optional<double> nan, std::optional<double> high, std::optional<double> low) {
  if (whole_numbers(x)) return x;
  if (is_complex(x.dtype())) return complex(nan_to_num(real(x), nan, high, low), nan_to_num(imag(x), nan, high, low));
  const double top = largest(x.dtype());
  Value r = hlo::select(is_nan(x), like(x, nan.value_or(0)), x);
  r = hlo::select(x == like(x, HUGE_VAL), like(x, high.value_or(top)), r);
  return hlo::select(x == like(x, -HUGE_VAL), like(x, low.value_or(-top)), r);
}
Value angle(Value x) {
  if (is_complex(x.dtype())) return atan2(imag(x), real(x));
  x = to_float(x);
  Value r = hlo::select(x < like(x, 0), like(x, M_PI), like(x, 0));
  return hlo::select(is_nan(x), x, r);
}
Value conj_physical(Value x) { return is_complex(x.dtype()) ? complex(real(x), negate(imag(x))) : x; }
Value logit(Value x, std::optional<double> eps) {
  const DType t = is_float(x.dtype()) ? x.dtype() : x.builder->options().default_float;
  Value v = widen(convert(x, t));
  if (eps) v = clamp(like(v, *eps), v, like(v, 1 - *eps));
  return convert(log(v / (1.0 - v)), t);
}
Value logit_backward(Value gradient, Value given, std::optional<double> eps) {
  Value g = widen(gradient), x = widen(given);
  Value r = g / (x * (1.0 - x));
  Value outside = or_(x<like(x, eps.value_or(0)), x> like(x, 1 - eps.value_or(0)));
  return convert(select(not_(outside), r, eps ? 0.0 : NAN), given.dtype());
}
Value arctangent(Value x) { return is_complex(x.dtype()) ? chlo("atan", {x}) : atan2(x, like(x, 1)); }
Value tangent(Value x) { return tan(x); }

constexpr Row kRows[] = {
    {"aten::_conj_physical", op<conj_physical>},
    {"aten::abs", op<abs_op>},
    {"aten::acos", op<float_unary<chlo_unary<kAcos>>>},
    {"aten::acosh", op<float_unary<chlo_unary<kAcosh>>>},
    {"aten::angle", op<angle>},
    {"aten::asin", op<float_unary<chlo_unary<kAsin>>>},
    {"aten::asinh", op<float_unary<chlo_unary<kAsinh>>>},
    {"aten::atan", op<float_unary<arctangent>>},
    {"aten::atanh", op<float_unary<chlo_unary<kAtanh>>>},
    {"aten::bitwise_not", op<bitwise_not>},
    {"aten::ceil", op<rounding<ceil>>},
    {"aten::conj_physical", op<conj_physical>},
    {"aten::cos", op<float_unary<cosine>>},
    {"aten::cosh", op<float_unary<chlo_unary<kCosh>>>},
    {"aten::erf", op<float_unary<chlo_unary<kErf>>>},
    {"aten::erfc", op<float_unary<chlo_unary<kErfc>>>},
    {"aten::erfinv", op<float_unary<chlo_unary<kErfInv>>>},
    {"aten::exp", op<float_unary<exponential>>},
    {"aten::exp2", op<float_unary<exp2_of>>},
    {"aten::expm1", op<float_unary<expm1>>},
    {"aten::floor", op<rounding<floor>>},
    {"aten::frac", op<unary<frac_of>>},
    {"aten::frexp.Tensor", op<frexp>},
    {"aten::isinf", op<is_inf>},
    {"aten::isnan", op<is_nan_op>},
    {"aten::isneginf", op<is_neg_inf>},
    {"aten::isposinf", op<is_pos_inf>},
    {"aten::lgamma", op<float_unary<chlo_unary<kLgamma>>>},
    {"aten::log", op<float_unary<log>>},
    {"aten::log10", op<float_unary<log10_of>>},
    {"aten::log1p", op<float_unary<log1p>>},
    {"aten::log2", op<float_unary<log2_of>>},
    {"aten::logical_not", op<logical_not>},
    {"aten::logit", op<logit>},
    {"aten::logit_backward", op<logit_backward>},
    {"aten::nan_to_num", op<nan_to_num>},
    {"aten::neg", op<neg>},
    {"aten::positive", op<positive>},
    {"aten::reciprocal", op<float_unary<reciprocal_of>>},
    {"aten::round", op<rounding<round_half_even>>},
    {"aten::round.decimals", op<round_decimals>},
    {"aten::rsqrt", op<float_unary<rsqrt>>},
    {"aten::sgn", op<sgn_of>},
    {"aten::sigmoid", op<float_unary<logistic>>},
    {"aten::sign", op<sgn_of>},
    {"aten::signbit", op<signbit_of>},
    {"aten::sin", op<float_unary<sine>>},
    {"aten::sinc", op<float_unary<sinc_of>>},
    {"aten::sinh", op<float_unary<chlo_unary<kSinh>>>},
    {"aten::sqrt", op<float_unary<square_root>>},
    {"aten::tan", op<float_unary<tangent>>},
    {"aten::tanh", op<float_unary<tanh>>},
    {"aten::trunc", op<rounding<truncate>>},
};

}  // namespace

const Table kPointwise = kRows;

}  // namespace tpu::ops
