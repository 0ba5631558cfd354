// Activations and softmax, forward and backward.
#include <cmath>

#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

// F of two values in their compute type.
template <auto F>
Value pair(Value x, Value y) {
  return convert(F(widen(x), widen(y)), x.dtype());
}

Value relu(Value x) { return maximum(x, like(x, 0)); }
Value silu_of(Value x) { return x * logistic(x); }
Value silu_grad(Value g, Value x) {
  Value s = logistic(x);
  return g * s * (1.0 + x * (1.0 - s));
}
Value mish_of(Value x) { return x * tanh(softplus(x)); }
Value mish_grad(Value g, Value x) {
  Value t = tanh(softplus(x)), s = logistic(x);
  return g * (t + x * s * (1.0 - t * t));
}
Value sigmoid_grad(Value g, Value y) {
  if (is_complex(y.dtype())) {
    Value d = y * (1.0 - y);
    return g * complex(real(d), negate(imag(d)));
  }
  return g * y * (1.0 - y);
}
Value tanh_grad(Value g, Value y) {
  Value d = 1.0 - y * y;
  return g * (is_complex(y.dtype()) ? complex(real(d), negate(imag(d))) : d);
}

constexpr double kBeta = M_SQRT2 * M_2_SQRTPI * 0.5, kKappa = 0.044715;
Value gelu(Value given, std::string approximate) {
  Value x = widen(given);
  Value y = approximate == "tanh" ? 0.5 * x * (1.0 + tanh(kBeta * (x + kKappa * x * x * x)))
                                  : 0.5 * x * (1.0 + erf(x * M_SQRT1_2));
  return convert(y, given.dtype());
}
Value gelu_backward(Value gradient, Value given, std::string approximate) {
  Value g = widen(gradient), x = widen(given), d;
  if (approximate == "tanh") {
    Value t = tanh(kBeta * (x + kKappa * x * x * x));
    d = 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * kBeta * (1.0 + 3 * kKappa * x * x);
  } else {
    Value density = exponential(-0.5 * x * x) * (M_2_SQRTPI * M_SQRT1_2 * 0.5);
    d = 0.5 * (1.0 + erf(x * M_SQRT1_2)) + x * density;
  }
  return convert(g * d, given.dtype());
}

Value threshold(Value x, Value limit, Value value) { return hlo::select(x <= fit(limit, x), fit(value, x), x); }
Value threshold_backward(Value g, Value x, Value limit) {
  auto [a, b] = promote_to(promote(g.dtype(), x.dtype()), g, x);
  return hlo::select(b <= fit(limit, b), like(a, 0), a);
}

Value softplus_op(Value given, Value beta, Value limit) {
  Value x = widen(given), scaled = x * fit(beta, x);
  Value y = hlo::select(scaled > fit(limit, x), x, log1p(exponential(scaled)) / fit(beta, x));
  return convert(y, given.dtype());
}
Value softplus_backward(Value gradient, Value given, Value beta, Value limit) {
  Value g = widen(gradient), x = widen(given), scaled = x * fit(beta, x);
  return convert(hlo::select(scaled > fit(limit, x), g, g * logistic(scaled)), given.dtype());
}

Value elu(Value given, Value alpha, Value scale, Value input_scale) {
  Value x = widen(given), a = fit(alpha, x) * fit(scale, x);
  Value y = hlo::select(x > like(x, 0), x * fit(scale, x), expm1(x * fit(input_scale, x)) * a);
  return convert(y, given.dtype());
}
Value elu_backward(Value gradient, Value alpha, Value scale, Value input_scale, bool is_result, Value given) {
  Value g = widen(gradient), x = widen(given);
  Value a = fit(alpha, x) * fit(scale, x), s = fit(input_scale, x);
  Value low = is_result ? g * s * (x + a) : g * s * a * exponential(x * s);
  return convert(hlo::select(x > like(x, 0), g * fit(scale, x), low), given.dtype());
}

Value leaky_relu(Value given, Value slope) {
  Value x = widen(given);
  return convert(hlo::select(x > like(x, 0), x, x * fit(slope, x)), given.dtype());
}
Value leaky_relu_backward(Value gradient, Value given, Value slope, Ignored) {
  Value g = widen(gradient), x = widen(given);
  return convert(hlo::select(x > like(x, 0), g, g * fit(slope, g)), given.dtype());
}
Value prelu(Value given, Value weight) {
  Value x = widen(given), w = broadcast(convert(weight, x.dtype()), x.dims());
  return convert(hlo::select(x > like(x, 0), x, x * w), given.dtype());
}
std::pair<Value, Value> prelu_backward(Value gradient, Value given, Value weight) {
  Value g = widen(gradient), x = widen(given), w = broadcast(convert(weight, x.dtype()), x.dims());
  Value positive = x > like(x, 0);
  return {convert(hlo::select(positive, g, g * w), given.dtype()),
          convert(hlo::select(positive, like(g, 0), g * x), given.dtype())};
}

Value hardtanh(Value x, Value low, Value high) { return minimum(maximum(x, fit(low, x)), fit(high, x)); }
Value hardtanh_backward(Value g, Value x, Value low, Value high) {
  return hlo::select(or_(x <= fit(low, x), x >= fit(high, x)), like(g, 0), g);
}
Value hardsigmoid_of(Value x) { return minimum(maximum(x + 3.0, like(x, 0)), like(x, 6)) / 6.0; }
Value hardsigmoid_grad(Value g, Value x) {
  return hlo::select(and_(x > like(x, -3), x < like(x, 3)), g / 6.0, like(g, 0));
}
Value hardswish_of(Value x) { return x * hardsigmoid_of(x); }
Value hardswish_grad(Value g, Value x) {
  Value middle = g * (x / 3.0 + 0.5);
  return hlo::select(x <= like(x, -3), like(g, 0), hlo::select(x < like(x, 3), middle, g));
}
Value hardshrink(Value x, Value limit) {
  Value l = fit(limit, x);
  return hlo::select(and_(x >= negate(l), x <= l), like(x, 0), x);
}
Value shrink_backward(Value g, Value x, Value limit) {
  Value l = fit(limit, x);
  return hlo::select(and_(x >= negate(l), x <= l), like(g, 0), g);
}
Value softshrink(Value given, Value limit) {
  Value x = widen(given), l = fit(limit, x);
  Value y = hlo::select(x > l, x - l, hlo::select(x < negate(l), x + l, x * 0.0));
  return convert(y, given.dtype());
}

std::pair<Value, Value> log_sigmoid_forward(Value given) {
  Value x = widen(given);
  Value z = exponential(negate(abs(x)));
  return {convert(minimum(x, like(x, 0)) - log1p(z), given.dtype()), convert(z, given.dtype())};
}
Value log_sigmoid_backward(Value gradient, Value given, Ignored) {
  Value g = widen(gradient), x = widen(given);
  return convert(g * logistic(negate(x)), given.dtype());
}

std::pair<Value, Value> halves(Value x, int64_t dim) {
  const int64_t d = wrap(dim, x.rank()), half = x.dim(d) / 2;
  return {slice(x, d, 0, half), slice(x, d, half, 2 * half)};
}
Value glu(Value given, int64_t dim) {
  auto [a, b] = halves(widen(given), dim);
  return convert(a * logistic(b), given.dtype());
}
Value glu_backward(Value gradient, Value given, int64_t dim) {
  auto [a, b] = halves(widen(given), dim);
  Value g = widen(gradient), s = logistic(b);
  return convert(concatenate({g * s, g * a * s * (1.0 - s)}, wrap(dim, given.rank())), given.dtype());
}

// Softmax of a wide value along one dim.
Value softmax_of(Value x, int64_t dim, bool logarithm) {
  if (x.rank() == 0) return logarithm ? x - x : exponential(x - x);
  const Dims d{wrap(dim, x.rank())};
  Value shifted = x - stretch(amax(x, d, true), x);
  Value e = exponential(shifted);
  Value total = stretch(sum(e, d, true), x);
  return logarithm ? shifted - log(total) : e / total;
}
Value softmax(Value x, int64_t dim, bool to_float32) {
  return convert(softmax_of(widen(x), dim, false), to_float32 ? DType::F32 : x.dtype());
}
Value log_softmax(Value x, int64_t dim, bool to_float32) {
  return convert(softmax_of(widen(x), dim, true), to_float32 ? DType::F32 : x.dtype());
}
Value safe_softmax(Value given, int64_t dim, std::optional<DType> t) {
  const DType type = t.value_or(given.dtype());
  Value x = convert(given, compute_type(type));
  Value masked = x == like(x, -HUGE_VAL);
  Value none = stretch(all(masked, axes(x, Dims{dim}), true), masked);
  return convert(select(not_(none), softmax_of(x, dim, false), 0.0), type);
}
Value softmax_backward(Value gradient, Value result, int64_t dim, DType t) {
  Value g = widen(gradient), y = widen(result);
  Value gy = g * y;
  if (g.rank() == 0) return convert(gy - y * gy, t);
  return convert(gy - y * stretch(sum(gy, {wrap(dim, g.rank())}, true), gy), t);
}
Value log_softmax_backward(Value gradient, Value result, int64_t dim, DType t) {
  Value g = widen(gradient), y = widen(result);
  if (g.rank() == 0) return convert(g - exponential(y) * g, t);
  return convert(g - exponential(y) * stretch(sum(g, {wrap(dim, g.rank())}, true), g), t);
}

constexpr Row kRows[] = {
    {"aten::_log_softmax", op<log_softmax>},
    {"aten::_log_softmax_backward_data", op<log_softmax_backward>},
    {"aten::_prelu_kernel", op<prelu>},
    {"aten::_prelu_kernel_backward", op<prelu_backward>},
    {"aten::_safe_softmax", op<safe_softmax>},
    {"aten::_softmax", op<softmax>},
    {"aten::_softmax_backward_data", op<softmax_backward>},
    {"aten::elu", op<elu>},
    {"aten::elu_backward", op<elu_backward>},
    {"aten::gelu", op<gelu>},
    {"aten::gelu_backward", op<gelu_backward>},
    {"aten::glu", op<glu>},
    {"aten::glu_backward", op<glu_backward>},
    {"aten::hardshrink", op<hardshrink>},
    {"aten::hardshrink_backward", op<shrink_backward>},
    {"aten::hardsigmoid", op<unary<hardsigmoid_of>>},
    {"aten::hardsigmoid_backward", op<pair<hardsigmoid_grad>>},
    {"aten::hardswish", op<unary<hardswish_of>>},
    {"aten::hardswish_backward", op<pair<hardswish_grad>>},
    {"aten::hardtanh", op<hardtanh>},
    {"aten::hardtanh_backward", op<hardtanh_backward>},
    {"aten::leaky_relu", op<leaky_relu>},
    {"aten::leaky_relu_backward", op<leaky_relu_backward>},
    {"aten::log_sigmoid_backward", op<log_sigmoid_backward>},
    {"aten::log_sigmoid_forward", op<log_sigmoid_forward>},
    {"aten::mish", op<unary<mish_of>>},
    {"aten::mish_backward", op<pair<mish_grad>>},
    {"aten::relu", op<relu>},
    {"aten::sigmoid_backward", op<pair<sigmoid_grad>>},
    {"aten::silu", op<unary<silu_of>>},
    {"aten::silu_backward", op<pair<silu_grad>>},
    {"aten::softplus", op<softplus_op>},
    {"aten::softplus_backward", op<softplus_backward>},
    {"aten::softshrink", op<softshrink>},
    {"aten::softshrink_backward", op<shrink_backward>},
    {"aten::tanh_backward", op<pair<tanh_grad>>},
    {"aten::threshold", op<threshold>},
    {"aten::threshold_backward", op<threshold_backward>},
};

}  // namespace

const Table kActivation = kRows;

}  // namespace tpu::ops
