// Arithmetic between values: sums, products, quotients, powers, bounds, bits.
#include <cmath>

#include "ops/math.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

template <auto F>
Value logical_or_arithmetic(Value x, Value y, Value (*bits)(Value, Value)) {
  if (result_type(x, y) != DType::Pred) return binary<F>(x, y);
  auto [a, b] = promote(x, y);
  return bits(a, b);
}

// x + alpha * y in the compute type of their result.
Value scaled_sum(Value x, Value y, Value alpha, bool subtracts) {
  const DType t = result_type(x, y);
  auto [a, b] = promote_to(compute_type(t), x, y);
  if (t == DType::Pred) return or_(a, and_(b, fit(alpha, b)));
  Value scaled = b * fit(alpha, b);
  return convert(subtracts ? a - scaled : a + scaled, t);
}
Value add_alpha(Value x, Value y, Value alpha) { return scaled_sum(x, y, alpha, false); }
Value sub_alpha(Value x, Value y, Value alpha) { return scaled_sum(x, y, alpha, true); }
Value rsub(Value x, Value y, Value alpha) { return scaled_sum(y, x, alpha, true); }
Value mul(Value x, Value y) { return logical_or_arithmetic<multiply>(x, y, and_); }

// XLA turns division by a stretched value into a product with its rounded reciprocal, where 6 / 3 may be less than 2; a
// divisor that seems to differ from element to element it leaves alone.
std::pair<Value, Value> dividend_and_divisor(DType t, Value x, Value y) {
  auto [a, b] = promote_to(t, x, y);
  if (is_float(t) && y.dims() != b.dims()) b = hlo::select(is_nan(a), a, b);
  return {a, b};
}
template <auto F>
Value division(Value x, Value y) {
  const DType t = result_type(x, y);
  auto [a, b] = dividend_and_divisor(compute_type(t), x, y);
  return convert(F(a, b), t);
}
Value quotient(Value x, Value y) {
  DType t = result_type(x, y);
  if (!is_float(t) && !is_complex(t)) t = x.builder->options().default_float;
  auto [a, b] = dividend_and_divisor(compute_type(t), x, y);
  return convert(a / b, t);
}
Value floor_div(Value x, Value y) { return division<floor_divide>(x, y); }
Value trunc_div(Value x, Value y) {
  // As in PyTorch, a narrow float's quotient is rounded before it is cut.
  return is_narrow_float(result_type(x, y)) ? unary<truncate>(quotient(x, y)) : division<trunc_divide>(x, y);
}
Value div_mode(Value x, Value y, std::optional<std::string> mode) {
  if (!mode) return quotient(x, y);
  return *mode == "floor" ? floor_div(x, y) : trunc_div(x, y);
}
Value safe_remainder(Value x, Value y) {
  if (is_float(x.dtype())) return remainder(x, y);
  Value zero = like(y, 0);
  Value r = remainder(x, hlo::select(y == zero, like(y, 1), y));
  return hlo::select(y == zero, like(r, 0), r);
}
// Numbers beside a narrow float are rounded to it first, as in PyTorch: a remainder jumps where the quotient is whole.
template <auto F>
Value rounded(Value x, Value y) {
  auto [a, b] = promote(x, y);
  return convert(F(widen(a), widen(b)), a.dtype());
}

// Repeated squaring keeps integers exact; a negative exponent leaves only 1 and -1.
Value integer_power(Value x, Value y) {
  Value zero = like(y, 0), one = like(x, 1);
  Value odd = and_(y, like(y, 1)) != zero;
  auto unfinished = [](const Values& v) { return Values{any_element(v[2] != like(v[2], 0))}; };
  auto step = [](const Values& v) {
    Value bit = and_(v[2], like(v[2], 1)) != like(v[2], 0);
    return Values{hlo::select(bit, v[0] * v[1], v[0]), v[1] * v[1], shift_right_logical(v[2], like(v[2], 1))};
  };
  Value result = while_loop({one, x, maximum(y, zero)}, unfinished, step)[0];
  if (is_unsigned(x.dtype())) return result;
  Value negative =
      hlo::select(x == one, one, hlo::select(x == negate(one), hlo::select(odd, negate(one), one), like(x, 0)));
  return hlo::select(y < zero, negative, result);
}
Value power_of(Value x, Value y) {
  if (is_float(x.dtype())) return power(x, y);
  if (is_complex(x.dtype())) {
    Value one = like(x, 1), zero = like(x, 0);
    Value pole = complex(like(real(x), HUGE_VAL), like(real(x), NAN));
    Value of_zero = hlo::select(real(y) > like(real(y), 0), zero, pole);
    return hlo::select(y == zero, one, hlo::select(x == zero, of_zero, exponential(y * log(x))));
  }
  return integer_power(x, y);
}
Value pow(Value x, Value y) { return binary<power_of>(x, y); }

Value number(Builder& b, const Number& n) {
  const Type wide{DType::F64, {}};
  Value v;
  if (n.is_complex) {
    v = complex(constant(b, n.real, wide), constant(b, n.imag, wide));
  } else if (n.is_float) {
    v = constant(b, n.real, wide);
  } else {
    v = constant(b, n.integer, {n.is_bool ? DType::Pred : DType::I64, {}});
  }
  v.number = true;
  return v;
}
Value whole_power(Value x, int64_t n) {
  Value result = like(x, 1);
  for (bool first = true; n > 0; n /= 2) {
    if (n % 2 == 1) {
      result = first ? x : result * x;
      first = false;
    }
    if (n > 1) x = x * x;
  }
  return result;
}
// The exponents that need no power().
std::optional<Value> easy_power(Value x, double e) {
  if (e == 0 || e == 1 || e == 2 || e == 3) return whole_power(x, int64_t(e));
  if (is_complex(x.dtype())) return std::nullopt;
  if (e == 0.5) return sqrt(x);
  if (e == -0.5) return rsqrt(x);
  if (e == -1) return 1.0 / x;
  if (e == -2) return 1.0 / (x * x);
  return std::nullopt;
}
Value pow_scalar(Value x, Number exponent) {
  Value y = number(*x.builder, exponent);
  const DType t = result_type(x, y);
  if (is_integer(t) && exponent.value() >= 0) return whole_power(convert(x, t), exponent.integer);
  if (!exponent.is_complex && !is_integer(t))
    if (std::optional<Value> r = easy_power(convert(x, compute_type(t)), exponent.value())) return convert(*r, t);
  return pow(x, y);
}

Value clamp_low(Value x, Value low) { return binary<maximum>(x, low); }
Value clamp_high(Value x, Value high) { return binary<minimum>(x, high); }
Value clamp_both(Value x, std::optional<Value> low, std::optional<Value> high) {
  Values all{x};
  if (low) all.push_back(*low);
  if (high) all.push_back(*high);
  x = convert(x, result_type(all));
  if (low) x = binary<maximum>(x, *low);
  if (high) x = binary<minimum>(x, *high);
  return x;
}
Value or_max(Value x, Value y) { return logical_or_arithmetic<maximum>(x, y, or_); }
Value or_min(Value x, Value y) { return logical_or_arithmetic<minimum>(x, y, and_); }
Value number_max(Value x, Value y) { return hlo::select(is_nan(x), y, hlo::select(is_nan(y), x, maximum(x, y))); }
Value number_min(Value x, Value y) { return hlo::select(is_nan(x), y, hlo::select(is_nan(y), x, minimum(x, y))); }

Value accumulate(Value x, Value a, Value b, Value scale, bool divides) {
  const DType t = result_type(Values{x, a, b});
  const DType c = compute_type(t);
  auto [p, q] = promote_to(c, a, b);
  Value scaled = fit(scale, p) * p;
  auto [s, r] = promote_to(c, x, divides ? scaled / q : scaled * q);
  return convert(s + r, t);
}
Value addcmul(Value x, Value a, Value b, Value scale) { return accumulate(x, a, b, scale, false); }
Value addcdiv(Value x, Value a, Value b, Value scale) { return accumulate(x, a, b, scale, true); }

Value lerp(Value x, Value end, Value weight) {
  const DType t = promote(x.dtype(), end.dtype()), c = compute_type(t);
  Dims dims = broadcast_dims(broadcast_dims(x.dims(), end.dims()), weight.dims());
  auto wide = [&](Value v) { return broadcast(convert(v, c), dims); };
  Value a = wide(x), b = wide(end), w = wide(weight);
  Value near = abs(w) < like(abs(w), 0.5);
  return convert(hlo::select(near, a + w * (b - a), b - (b - a) * (1.0 - w)), t);
}

Value hypot_of(Value x, Value y) {
  Value a = abs(x), b = abs(y), m = maximum(a, b), n = minimum(a, b);
  Value zero = like(m, 0);
  Value r = n / hlo::select(m == zero, like(m, 1), m);
  Value result = m * sqrt(1.0 + r * r);
  Value infinite = or_(a == like(a, HUGE_VAL), b == like(b, HUGE_VAL));
  return hlo::select(infinite, like(a, HUGE_VAL), hlo::select(m == zero, zero, result));
}
Value sign_bit(Value x) {
  const DType bits = element_size(x.dtype()) == 8 ? DType::I64 : DType::I32;
  Value b = bitcast(x, {bits, x.dims()});
  return b < like(b, 0);
}
Value copysign_of(Value x, Value y) { return hlo::select(sign_bit(y), negate(abs(x)), abs(x)); }
Value xlogy_of(Value x, Value y) {
  return hlo::select(is_nan(y), y, hlo::select(x == like(x, 0), like(x, 0), x * log(y)));
}
Value xlog1py_of(Value x, Value y) {
  return hlo::select(is_nan(y), y, hlo::select(x == like(x, 0), like(x, 0), x * log1p(y)));
}
Value logaddexp_of(Value x, Value y) {
  if (is_complex(x.dtype())) {
    Value first = real(x) >= real(y), high = hlo::select(first, x, y), low = hlo::select(first, y, x);
    return high + log1p(exponential(low - high));
  }
  Value same = and_(x == y, not_(is_finite(x)));
  Value m = maximum(x, y), d = negate(abs(x - y));
  return hlo::select(same, x, m + log1p(exponential(d)));
}
Value logaddexp2_of(Value x, Value y) {
  const double ln2 = std::log(2.0);
  return logaddexp_of(x * ln2, y * ln2) / ln2;
}
Value heaviside(Value x, Value values) {
  auto [a, b] = promote(x, values);
  Value zero = like(a, 0), one = like(a, 1);
  if (a.dtype() == DType::Pred) return or_(a, b);
  return hlo::select(a == zero, b, hlo::select(a > zero, one, zero));
}
Value next_after(Value x, Value y) {
  auto [a, b] = promote(x, y);
  return chlo("next_after", {a, b});
}

Value gcd_of(Value x, Value y) {
  Values init{is_unsigned(x.dtype()) ? x : abs(x), is_unsigned(y.dtype()) ? y : abs(y)};
  auto unfinished = [](const Values& v) { return Values{any_element(v[1] != like(v[1], 0))}; };
  auto step = [](const Values& v) {
    Value zero = like(v[1], 0), done = v[1] == zero;
    Value r = remainder(v[0], hlo::select(done, like(v[1], 1), v[1]));
    return Values{hlo::select(done, v[0], v[1]), hlo::select(done, zero, r)};
  };
  return while_loop(init, unfinished, step)[0];
}
Value lcm_of(Value x, Value y) {
  const DType t = x.dtype();
  if (element_size(t) < 4) return convert(lcm_of(convert(x, DType::I32), convert(y, DType::I32)), t);
  Value g = gcd_of(x, y);
  Value l = x / hlo::select(g == like(g, 0), like(g, 1), g) * y;
  return is_unsigned(l.dtype()) ? l : abs(l);
}

template <auto F>
Value shift(Value x, Value y) {
  auto [a, b] = promote(x, y);
  const int64_t bits = element_size(a.dtype()) * 8;
  Value out = b >= like(b, bits);
  if (!is_unsigned(b.dtype())) out = or_(out, b < like(b, 0));
  Value shifted = F(a, hlo::select(out, like(b, 0), b));
  return hlo::select(out, F(F(a, like(b, bits - 1)), like(b, 1)), shifted);
}
Value shift_right(Value x, Value y) {
  return is_unsigned(x.dtype()) ? shift_right_logical(x, y) : shift_right_arithmetic(x, y);
}

Value complex_of(Value re, Value im) {
  auto [a, b] = promote_to(promote(re.dtype(), im.dtype()), re, im);
  return complex(a, b);
}
Value polar(Value r, Value angle) {
  auto [a, b] = promote_to(promote(r.dtype(), angle.dtype()), r, angle);
  return complex(a * cosine(b), a * sine(b));
}

Value where(Value condition, Value x, Value y) {
  auto [a, b] = promote(x, y);
  const Dims dims = broadcast_dims(condition.dims(), a.dims());
  return hlo::select(broadcast(truth(condition), dims), broadcast(a, dims), broadcast(b, dims));
}

constexpr Row kRows[] = {
    {"aten::__lshift__.Scalar", op<shift<shift_left>>},
    {"aten::__lshift__.Tensor", op<shift<shift_left>>},
    {"aten::__rshift__.Scalar", op<shift<shift_right>>},
    {"aten::__rshift__.Tensor", op<shift<shift_right>>},
    {"aten::add.Scalar", op<add_alpha>},
    {"aten::add.Tensor", op<add_alpha>},
    {"aten::addcdiv", op<addcdiv>},
    {"aten::addcmul", op<addcmul>},
    {"aten::atan2", op<float_binary<atan2>>},
    {"aten::bitwise_and.Scalar", op<binary<and_>>},
    {"aten::bitwise_and.Scalar_Tensor", op<binary<and_>>},
    {"aten::bitwise_and.Tensor", op<binary<and_>>},
    {"aten::bitwise_left_shift.Scalar_Tensor", op<shift<shift_left>>},
    {"aten::bitwise_left_shift.Tensor", op<shift<shift_left>>},
    {"aten::bitwise_left_shift.Tensor_Scalar", op<shift<shift_left>>},
    {"aten::bitwise_or.Scalar", op<binary<or_>>},
    {"aten::bitwise_or.Scalar_Tensor", op<binary<or_>>},
    {"aten::bitwise_or.Tensor", op<binary<or_>>},
    {"aten::bitwise_right_shift.Scalar_Tensor", op<shift<shift_right>>},
    {"aten::bitwise_right_shift.Tensor", op<shift<shift_right>>},
    {"aten::bitwise_right_shift.Tensor_Scalar", op<shift<shift_right>>},
    {"aten::bitwise_xor.Scalar", op<binary<xor_>>},
    {"aten::bitwise_xor.Scalar_Tensor", op<binary<xor_>>},
    {"aten::bitwise_xor.Tensor", op<binary<xor_>>},
    {"aten::clamp", op<clamp_both>},
    {"aten::clamp.Tensor", op<clamp_both>},
    {"aten::clamp_max", op<clamp_high>},
    {"aten::clamp_max.Tensor", op<clamp_high>},
    {"aten::clamp_min", op<clamp_low>},
    {"aten::clamp_min.Tensor", op<clamp_low>},
    {"aten::complex", op<complex_of>},
    {"aten::copysign.Tensor", op<float_binary<copysign_of>>},
    {"aten::div.Scalar", op<quotient>},
    {"aten::div.Scalar_mode", op<div_mode>},
    {"aten::div.Tensor", op<quotient>},
    {"aten::div.Tensor_mode", op<div_mode>},
    {"aten::floor_divide", op<floor_div>},
    {"aten::fmax", op<binary<number_max>>},
    {"aten::fmin", op<binary<number_min>>},
    {"aten::fmod.Scalar", op<rounded<safe_remainder>>},
    {"aten::fmod.Tensor", op<rounded<safe_remainder>>},
    {"aten::gcd", op<binary<gcd_of>>},
    {"aten::heaviside", op<heaviside>},
    {"aten::hypot", op<float_binary<hypot_of>>},
    {"aten::lcm", op<binary<lcm_of>>},
    {"aten::lerp.Scalar", op<lerp>},
    {"aten::lerp.Tensor", op<lerp>},
    {"aten::logaddexp", op<float_binary<logaddexp_of>>},
    {"aten::logaddexp2", op<float_binary<logaddexp2_of>>},
    {"aten::maximum", op<or_max>},
    {"aten::minimum", op<or_min>},
    {"aten::mul.Scalar", op<mul>},
    {"aten::mul.Tensor", op<mul>},
    {"aten::nextafter", op<next_after>},
    {"aten::polar", op<polar>},
    {"aten::pow.Scalar", op<rounded<power_of>>},
    {"aten::pow.Tensor_Scalar", op<pow_scalar>},
    {"aten::pow.Tensor_Tensor", op<pow>},
    {"aten::remainder.Scalar", op<rounded<floor_remainder>>},
    {"aten::remainder.Scalar_Tensor", op<rounded<floor_remainder>>},
    {"aten::remainder.Tensor", op<rounded<floor_remainder>>},
    {"aten::rsub.Scalar", op<rsub>},
    {"aten::rsub.Tensor", op<rsub>},
    {"aten::special_xlog1py", op<float_binary<xlog1py_of>>},
    {"aten::sub.Scalar", op<sub_alpha>},
    {"aten::sub.Tensor", op<sub_alpha>},
    {"aten::where.self", op<where>},
    {"aten::xlogy.Tensor", op<float_binary<xlogy_of>>},
};

}  // namespace

const Table kArithmetic = kRows;

}  // namespace tpu::ops
