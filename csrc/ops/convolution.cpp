// Convolutions of one to three spatial dims: forward, transposed, and their gradients.
#include <algorithm>

#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

struct Geometry {
  Dims stride, padding, dilation, output_padding;
  int64_t groups = 1;
  size_t spatial() const { return stride.size(); }
};

// One entry for all spatial dims may be given once.
Dims expand(Dims v, size_t count) { return v.size() == count ? v : Dims(count, v.empty() ? 0 : v[0]); }
Geometry geometry(const Value& x, Dims stride, Dims padding, Dims dilation, Dims output_padding, int64_t groups) {
  const size_t n = size_t(x.rank() - 2);
  return {expand(stride, n), expand(padding, n), expand(dilation, n), expand(output_padding, n), groups};
}

Value convolve(Value x, Value w, const Geometry& g) {
  Convolution c{.stride = g.stride,
                .low = g.padding,
                .high = g.padding,
                .dilation = g.dilation,
                .input_dilation = {},
                .groups = g.groups,
                .input_order = {},
                .kernel_order = {},
                .output_order = {},
                .reverse = {}};
  return convolution(x, w, c, x.dtype());
}

// [groups * in, out, ...] as [groups * out, in, ...]: the kernel of the opposite direction.
Value swapped(Value w, int64_t groups) {
  Dims split{groups, w.dim(0) / groups, w.dim(1)}, order{0, 2, 1}, joined{groups * w.dim(1), w.dim(0) / groups};
  for (int64_t d = 2; d < w.rank(); ++d) {
    split.push_back(w.dim(d));
    order.push_back(d + 1);
    joined.push_back(w.dim(d));
  }
  return reshape(transpose(reshape(w, split), order), joined);
}

// The gradient of convolve() by its input, which has these spatial sizes; also the transposed convolution.
Value transposed(Value y, Value w, const Geometry& g, const Dims& sizes) {
  Convolution c{.stride = Dims(g.spatial(), 1),
                .low = {},
                .high = {},
                .dilation = g.dilation,
                .input_dilation = g.stride,
                .groups = g.groups,
                .input_order = {},
                .kernel_order = {},
                .output_order = {},
                .reverse = std::vector<bool>(g.spatial(), true)};
  for (size_t i = 0; i < g.spatial(); ++i) {
    const int64_t window = (w.dim(int64_t(i) + 2) - 1) * g.dilation[i] + 1;
    const int64_t spread = y.dim(int64_t(i) + 2) == 0 ? 0 : (y.dim(int64_t(i) + 2) - 1) * g.stride[i] + 1;
    c.low.push_back(window - 1 - g.padding[i]);
    c.high.push_back(sizes[i] + window - 1 - spread - c.low.back());
  }
  return convolution(y, swapped(w, g.groups), c, y.dtype());
}

// The gradient by the kernel: input and output gradient convolved, batch and channels changing places.
Value kernel_gradient(Value x, Value gy, const Dims& kernel, const Geometry& g) {
  const auto rank = int64_t(kernel.size()) + 2;
  Convolution c{.stride = g.dilation,
                .low = g.padding,
                .high = {},
                .dilation = g.stride,
                .input_dilation = {},
                .groups = 1,
                .batch_groups = g.groups,
                .input_order = {1, 0},
                .kernel_order = {1, 0},
                .output_order = {1, 0},
                .reverse = {}};
  for (int64_t d = 2; d < rank; ++d) {
    c.input_order.push_back(d);
    c.kernel_order.push_back(d);
    c.output_order.push_back(d);
  }
  for (size_t i = 0; i < g.spatial(); ++i) {
    const int64_t spread = (gy.dim(int64_t(i) + 2) - 1) * g.stride[i] + 1;
    const int64_t need = (kernel[i] - 1) * g.dilation[i] + spread;
    c.high.push_back(need - x.dim(int64_t(i) + 2) - g.padding[i]);
  }
  return convolution(x, gy, c, x.dtype());
}

// y with its spatial dims cut to sizes: an output padding of a stride or more makes the gradient one window too long.
Value cut(Value y, const Dims& sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) y = slice(y, int64_t(i) + 2, 0, sizes[i]);
  return y;
}

Dims spatial(const Value& x) { return Dims(x.dims().begin() + 2, x.dims().end()); }

Value add_bias(Value y, std::optional<Value> bias) {
  return bias ? y + broadcast_in_dim(convert(*bias, y.dtype()), y.dims(), {1}) : y;
}

Value conv(Value given, Value weight, std::optional<Value> bias, Dims stride, Dims padding, Dims dilation,
           bool is_transposed, Dims output_padding, int64_t groups) {
  const Geometry g = geometry(given, stride, padding, dilation, output_padding, groups);
  Value x = widen(given), w = widen(weight);
  Value y;
  if (is_transposed) {
    Dims sizes;
    for (size_t i = 0; i < g.spatial(); ++i)
      sizes.push_back((x.dim(int64_t(i) + 2) - 1) * g.stride[i] - 2 * g.padding[i] +
                      (w.dim(int64_t(i) + 2) - 1) * g.dilation[i] + g.output_padding[i] + 1);
    y = transposed(x, w, g, sizes);
  } else {
    y = convolve(x, w, g);
  }
  return convert(add_bias(y, bias), given.dtype());
}

Values conv_backward(Value gradient, Value given, Value weight, Dims stride, Dims padding, Dims dilation,
                     bool is_transposed, Dims output_padding, int64_t groups, std::vector<bool> mask) {
  const Geometry g = geometry(given, stride, padding, dilation, output_padding, groups);
  Value gy = widen(gradient), x = widen(given), w = widen(weight);
  Values result(3);
  if (mask[0]) {
    Value dx = is_transposed ? cut(convolve(gy, w, g), spatial(x)) : transposed(gy, w, g, spatial(x));
    result[0] = convert(dx, given.dtype());
  }
  if (mask[1]) {
    Value dw = is_transposed ? kernel_gradient(gy, x, spatial(w), g) : kernel_gradient(x, gy, spatial(w), g);
    result[1] = convert(dw, weight.dtype());
  }
  if (mask[2]) {
    Dims over{0};
    for (int64_t d = 2; d < gy.rank(); ++d) over.push_back(d);
    result[2] = convert(sum(gy, over, false), gradient.dtype());
  }
  return result;
}

constexpr Row kRows[] = {
    {"aten::convolution_backward_overrideable", op<conv_backward>},
    {"aten::convolution_overrideable", op<conv>},
};

}  // namespace

const Table kConvolution = kRows;

}  // namespace tpu::ops
