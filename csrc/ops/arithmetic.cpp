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
  if (t == DType::Pred) return and_(or_(a, and_(b, fit(alpha, b))), all_true(a));
  Value scaled = b * fit(alpha, b);
  return convert(subtracts ? a - scaled : a + scaled, t);
}
Value add_alpha(Value x, Value y, Value alpha) { return scaled_sum(x, y, alpha, false); }
Value sub_alpha(Value x, Value y, Value alpha) { return scaled_sum(x, y, alpha, true); }
Value rsub(Value x, Value y, Value alpha) { return scaled_sum(y, x, alpha, true); }
Value mul(Value x, Value y) { return logical_or_arithmetic<multiply>(x, y, and_); }

Value quotient(Value x, Value y) {
  DType t = result_type(x, y);
  if (!is_float(t) && !is_complex(t)) t = x.builder->options().default_float;
  auto [a, b] = promote_to(compute_type(t), x, y);
  return convert(a / b, t);
}
Value floor_div(Value x, Value y) { return binary<floor_divide>(x, y); }
Value trunc_div(Value x, Value y) { return binary<trunc_divide>(x, y); }
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
Value fmod(Value x, Value y) { return binary<safe_remainder>(x, y); }
Value remainder_op(Value x, Value y) { return binary<floor_remainder>(x, y); }

// Repeated squaring keeps integers exact; a negative exponent leaves only 1 and -1.
Value integer_power(Value x, Value y) {
  Value zero = like(y, 0), one = like(x, 1);
  Value odd = and_(y, like(y, 1)) != zero;
  Value result = one, base = x, rest = maximum(y, zero);
  const int bits = int(element_size(x.dtype())) * 8 > 32 ? 6 : 5;
  for (int i = 0; i < bits; ++i) {
    Value bit = and_(rest, like(rest, 1)) != like(rest, 0);
    result = hlo::select(bit, result * base, result);
    base = base * base;
    rest = shift_right_logical(rest, like(rest, 1));
  }
  if (is_unsigned(x.dtype())) return result;
  Value negative = hlo::select(x == one, one, hlo::select(x == negate(one), hlo::select(odd, negate(one), one), like(x, 0)));
  return hlo::select(y < zero, negative, result);
}
Value power_of(Value x, Value y) {
  if (is_float(x.dtype())) return power(x, y);
  if (is_complex(x.dtype())) {
    Value one = like(x, 1), zero = like(x, 0);
    return hlo::select(y == zero, one, hlo::select(x == zero, zero, exponential(y * log(x))));
  }
  return integer_power(x, y);
}
Value pow(Value x, Value y) {
  if (result_type(x, y) == DType::Pred) {
    auto [a, b] = promote(x, y);
    return or_(a, not_(b));
  }
  return binary<power_of>(x, y);
}
// An exponent that is a small whole number, a half or a reciprocal needs no power().
Value pow_scalar(Value x, Number exponent) {
  Builder& b = *x.builder;
  Value y;
  if (exponent.is_complex) {
    const Type t{DType::C128, {}};
    y = complex(constant(b, exponent.real, {DType::F64, {}}), constant(b, exponent.imag, {DType::F64, {}}));
  } else if (exponent.is_float) {
    y = constant(b, exponent.real, {DType::F64, {}});
  } else {
    y = constant(b, exponent.integer, {exponent.is_bool ? DType::Pred : DType::I64, {}});
  }
  y.number = true;
  const DType t = result_type(x, y);
  const double e = exponent.value();
  if (is_float(t)) {
    Value v = convert(x, compute_type(t)), r;
    if (e == 2) {
      r = v * v;
    } else if (e == 3) {
      r = v * v * v;
    } else if (e == 1) {
      r = v;
    } else if (e == 0) {
      r = like(v, 1);
    } else if (e == 0.5) {
      r = sqrt(v);
    } else if (e == -0.5) {
      r = rsqrt(v);
    } else if (e == -1) {
      r = 1.0 / v;
    } else if (e == -2) {
      r = 1.0 / (v * v);
    } else {
      return pow(x, y);
    }
    return convert(r, t);
  }
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
  auto [s, r] = promote_to(c, x, divides ? p / q : p * q);
  if (divides) {
    auto [u, v] = promote_to(c, a, b);
    Value scaled = u * fit(scale, u) / v;
    auto [w, z] = promote_to(c, x, scaled);
    return convert(w + z, t);
  }
  return convert(s + r * fit(scale, r), t);
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

Value float_binary(Value x, Value y, Value (*f)(Value, Value)) {
  DType t = result_type(x, y);
  if (!is_float(t) && !is_complex(t)) t = x.builder->options().default_float;
  auto [a, b] = promote_to(compute_type(t), x, y);
  return convert(f(a, b), t);
}
template <auto F>
Value floats(Value x, Value y) {
  return float_binary(x, y, F);
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
  if (is_complex(x.dtype())) return log(exponential(x) + exponential(y));
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
  return hlo::select(is_nan(a), is_float(a.dtype()) ? a : zero, hlo::select(a == zero, b, hlo::select(a < zero, zero, one)));
}
Value next_after(Value x, Value y) { return chlo("next_after", {x, y}); }

Value gcd_of(Value x, Value y) {
  Values init{is_unsigned(x.dtype()) ? x : abs(x), is_unsigned(y.dtype()) ? y : abs(y)};
  auto unfinished = [](const Values& v) {
    Value open = v[1] != like(v[1], 0);
    Dims all;
    for (int64_t d = 0; d < open.rank(); ++d) all.push_back(d);
    return Values{reduce(open, "or", constant(*open.builder, int64_t{0}, {DType::Pred, {}}), all)};
  };
  auto step = [](const Values& v) {
    Value zero = like(v[1], 0), done = v[1] == zero;
    Value r = remainder(v[0], hlo::select(done, like(v[1], 1), v[1]));
    return Values{hlo::select(done, v[0], v[1]), hlo::select(done, zero, r)};
  };
  return while_loop(init, unfinished, step)[0];
}
Value lcm_of(Value x, Value y) {
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
    {"aten::add.Scalar", op<add_alpha>},
    {"aten::add.Tensor", op<add_alpha>},
    {"aten::addcdiv", op<addcdiv>},
    {"aten::addcmul", op<addcmul>},
    {"aten::atan2", op<floats<atan2>>},
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
    {"aten::copysign.Tensor", op<floats<copysign_of>>},
    {"aten::div.Scalar", op<quotient>},
    {"aten::div.Scalar_mode", op<div_mode>},
    {"aten::div.Tensor", op<quotient>},
    {"aten::div.Tensor_mode", op<div_mode>},
    {"aten::floor_divide", op<floor_div>},
    {"aten::fmax", op<binary<number_max>>},
    {"aten::fmin", op<binary<number_min>>},
    {"aten::fmod.Scalar", op<fmod>},
    {"aten::fmod.Tensor", op<fmod>},
    {"aten::gcd", op<binary<gcd_of>>},
    {"aten::heaviside", op<heaviside>},
    {"aten::hypot", op<floats<hypot_of>>},
    {"aten::lcm", op<binary<lcm_of>>},
    {"aten::lerp.Scalar", op<lerp>},
    {"aten::lerp.Tensor", op<lerp>},
    {"aten::logaddexp", op<floats<logaddexp_of>>},
    {"aten::logaddexp2", op<floats<logaddexp2_of>>},
    {"aten::maximum", op<or_max>},
    {"aten::minimum", op<or_min>},
    {"aten::mul.Scalar", op<mul>},
    {"aten::mul.Tensor", op<mul>},
    {"aten::nextafter", op<binary<next_after>>},
    {"aten::polar", op<polar>},
    {"aten::pow.Scalar", op<pow>},
    {"aten::pow.Tensor_Scalar", op<pow_scalar>},
    {"aten::pow.Tensor_Tensor", op<pow>},
    {"aten::remainder.Scalar", op<remainder_op>},
    {"aten::remainder.Scalar_Tensor", op<remainder_op>},
    {"aten::remainder.Tensor", op<remainder_op>},
    {"aten::rsub.Scalar", op<rsub>},
    {"aten::rsub.Tensor", op<rsub>},
    {"aten::special_xlog1py", op<floats<xlog1py_of>>},
    {"aten::sub.Scalar", op<sub_alpha>},
    {"aten::sub.Tensor", op<sub_alpha>},
    {"aten::where.self", op<where>},
    {"aten::xlogy.Tensor", op<floats<xlogy_of>>},
};

}  // namespace

const Table kArithmetic = kRows;

}  // namespace tpu::ops
